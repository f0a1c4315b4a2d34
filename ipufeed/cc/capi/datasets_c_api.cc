// The C entry points of datasets and their files.

#include <cstdint>

#include "capi/api.h"
#include "data/count_elements.h"
#include "data/python_dataset.h"
#include "data/record_scan.h"

// Python's way to scan_records, for ctypes.
IPUFEED_API std::int64_t ipufeed_scan_records(void* scan, const void* bytes,
                                              std::int64_t size) {
  return ipufeed::entry(
      __func__, {ipufeed::given("scan", scan), ipufeed::given("bytes", bytes, size)},
      [&]() -> std::int64_t {
        return ipufeed::scan_records(static_cast<ipufeed::RecordScan*>(scan),
                                     static_cast<const unsigned char*>(bytes), size);
      });
}

// See count_elements.h.
IPUFEED_API int ipufeed_count_elements_at(void* address) {
  return ipufeed::entry(__func__, [&] { ipufeed::count_elements_at(address); });
}

// See python_dataset.h. `function` is called on the threads of datasets.
IPUFEED_API int ipufeed_set_on_read(ipufeed::OnRead function) {
  return ipufeed::entry(__func__, [&] { ipufeed::set_on_read(function); });
}
