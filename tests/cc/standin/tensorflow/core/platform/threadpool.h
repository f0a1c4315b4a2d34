// Only owned by DatasetIterator, whose members are standin/dataset_iterator.cc: empty.
#pragma once

namespace tensorflow {

namespace thread {
class ThreadPool {};
}  // namespace thread

}  // namespace tensorflow
