// Names of the calls that a compiled program with a pipeline makes: pipeline_lowering.cc
// puts them in, pipeline_calls.cc answers.
#pragma once

namespace ipufeed {

inline constexpr char kRemote[] = "ipufeed_remote";
inline constexpr char kWait[] = "ipufeed_wait";
inline constexpr char kCount[] = "ipufeed_pipeline_count";
inline constexpr char kPipeline[] = "ipufeed_pipeline";
inline constexpr char kSend[] = "ipufeed_send";
inline constexpr char kReceive[] = "ipufeed_receive";
inline constexpr char kEnters[] = "ipufeed_stage_enters";
inline constexpr char kBegins[] = "ipufeed_stage_begins";
inline constexpr char kEnds[] = "ipufeed_stage_ends";

}  // namespace ipufeed
