// TensorFlow's headers that most of our files read, precompiled: see CMakeLists.txt. No
// file relies on it; each includes what it uses. To load it takes a second, to read
// them five.
#include "tensorflow/core/framework/op_kernel.h"
