// Where the elements of an IpufeedCountElementsDataset are counted.
#pragma once

namespace ipufeed {

// From now on elements are counted in the 8 bytes at `address`, which must stay mapped
// for the life of the process; nullptr ends it. Any thread.
void count_elements_at(void* address);

}  // namespace ipufeed
