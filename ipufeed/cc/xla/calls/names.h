// Names of the calls that compiled programs make: xla/lowering emits them, the files of
// this folder implement them.
#pragma once

namespace ipufeed {

// queue_calls.cc
inline constexpr char kDequeue[] = "ipufeed_dequeue";
inline constexpr char kEnqueue[] = "ipufeed_enqueue";
inline constexpr char kClock[] = "ipufeed_clock";
inline constexpr char kStep[] = "ipufeed_step";

// replica_calls.cc
// The calls of a compiled program for collectives: of all replicas, those of the other
// processes included, and of a group of this process's replicas.
inline constexpr char kCollectiveOfAll[] = "ipufeed_collective_of_all";
inline constexpr char kCollectiveOfGroup[] = "ipufeed_collective_of_group";
inline constexpr char kIndex[] = "ipufeed_replication_index";
inline constexpr char kRepeat[] = "ipufeed_repeat_count";

// pipeline_calls.cc
inline constexpr char kRemote[] = "ipufeed_remote";
inline constexpr char kWait[] = "ipufeed_wait";
inline constexpr char kCount[] = "ipufeed_pipeline_count";
inline constexpr char kPipeline[] = "ipufeed_pipeline";
inline constexpr char kSend[] = "ipufeed_send";
inline constexpr char kReceive[] = "ipufeed_receive";
inline constexpr char kEnters[] = "ipufeed_stage_enters";
inline constexpr char kBegins[] = "ipufeed_stage_begins";
inline constexpr char kEnds[] = "ipufeed_stage_ends";

// seed_calls.cc
inline constexpr char kSeed[] = "ipufeed_seed";
inline constexpr char kRandom[] = "ipufeed_random";

// assert_calls.cc
inline constexpr char kAssert[] = "ipufeed_assert";

// host_calls.cc
inline constexpr char kHostCall[] = "ipufeed_host_call";

}  // namespace ipufeed
