// Only owned by DatasetIterator, whose members are standin/dataset_iterator.cc: empty.
#pragma once

namespace tensorflow {

class FunctionLibraryDefinition {};
class ProcessFunctionLibraryRuntime {};

}  // namespace tensorflow
