// Only owned by Host, whose members are standin/dataset_iterator.cc: empty.
#pragma once

namespace tensorflow {

class DeviceMgr {};

class StaticDeviceMgr : public DeviceMgr {};

}  // namespace tensorflow
