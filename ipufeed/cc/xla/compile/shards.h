// How many IPUs one copy of a program is spread over.
#pragma once

namespace tensorflow {
class FunctionDef;
class FunctionLibraryDefinition;
}  // namespace tensorflow

namespace ipufeed {

// One more than the highest index that ipu_shard has noted at an op of the function, or
// of one that it calls; 1 if nothing is noted.
int shards_of(const tensorflow::FunctionLibraryDefinition& library,
              const tensorflow::FunctionDef& function);

}  // namespace ipufeed
