// Only owned by DatasetIterator, whose members are standin/dataset_iterator.cc: empty.
#pragma once

namespace tensorflow {

namespace data {
class UnboundedThreadPool {};
}  // namespace data

}  // namespace tensorflow
