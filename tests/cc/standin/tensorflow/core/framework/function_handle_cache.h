// Only owned by DatasetIterator, whose members are standin/dataset_iterator.cc: empty.
#pragma once

namespace tensorflow {

class FunctionHandleCache {};

}  // namespace tensorflow
