// The library's build information, in its file. Compiled with a header that setup.py
// has written.

#ifndef IPUFEED_BUILD_INFO
#error "setup.py defines IPUFEED_BUILD_INFO, a JSON text: see there"
#endif

// What the library was built against and from. _native.py looks for the marker in the
// file: it must read it before it loads the library, and a wrong one cannot be loaded.
extern "C" __attribute__((visibility("default"), used))
const char ipufeed_build_info[] =  // NOLINT: a C name
    "ipufeed-build-info:" IPUFEED_BUILD_INFO;
