// The chain of a seed: run, replica, op and execution, and the mini-batch's number in
// the place of the last one's order.

#include "core/seeds.cc"

#include <set>

#include "check.h"

namespace {

using ipufeed::RunSeeds;

RunSeeds::Place place(int replica, std::int64_t op, std::int64_t mini_batch = 0) {
  RunSeeds::Place found;
  found.replica = replica;
  found.op = op;
  found.mini_batch = mini_batch;
  return found;
}

// The seed of an execution of an op, in the n-th run after a reset.
std::uint64_t seed_of(std::int64_t seed, int n, const RunSeeds::Place& where, int c) {
  ipufeed::set_device_seed(0, seed, false);
  for (int run = 1; run < n; ++run) RunSeeds().begin(0);
  RunSeeds seeds;
  for (int execution = 0; execution < c; ++execution) seeds.draw(0, where);
  return seeds.draw(0, where);
}

TEST(vectors) {
  CHECK(seed_of(5, 1, place(0, 0), 0) == 0xd1f94e3f81c907a0);
  CHECK(seed_of(-1, 3, place(1, 4), 7) == 0x2fff44147763a128);
}

TEST(neighbours_differ) {
  std::set<std::uint64_t> seeds;
  for (int n = 1; n < 5; ++n) {
    for (int replica = 0; replica < 5; ++replica) {
      for (int op = 0; op < 5; ++op) {
        for (int c = 0; c < 5; ++c) seeds.insert(seed_of(3, n, place(replica, op), c));
      }
    }
  }
  CHECK(seeds.size() == 4 * 5 * 5 * 5);
}

TEST(identical_replicas_draw_the_same) {
  ipufeed::set_device_seed(0, 3, true);
  RunSeeds seeds;
  CHECK(seeds.draw(0, place(0, 1)) == seeds.draw(0, place(1, 1)));
}

TEST(the_order_of_mini_batches_does_not_matter) {
  ipufeed::set_device_seed(0, 3, false);
  RunSeeds forward;
  const auto first = forward.draw(0, place(0, 0, 0));
  const auto again = forward.draw(0, place(0, 0, 0));
  const auto second = forward.draw(0, place(0, 0, 1));
  ipufeed::set_device_seed(0, 3, false);
  RunSeeds backward;
  CHECK(backward.draw(0, place(0, 0, 1)) == second);
  CHECK(backward.draw(0, place(0, 0, 0)) == first);
  CHECK(backward.draw(0, place(0, 0, 0)) == again);
  CHECK(again == seed_of(3, 1, place(0, 0), 1));
  CHECK(again != first);
}

TEST(an_op_keeps_its_own_seed_until_a_reset) {
  ipufeed::forget_device_seeds();
  RunSeeds seeds;
  CHECK(seeds.draw_or_keep(0, place(0, 0), 77) == 77);
  CHECK(seeds.draw_or_keep(0, place(1, 0), 77) != 77);
  ipufeed::set_device_seed(0, 5, false);
  RunSeeds reset;
  CHECK(reset.draw_or_keep(0, place(0, 0), 77) == 0xd1f94e3f81c907a0);
}

TEST(without_a_reset_devices_and_runs_differ) {
  ipufeed::forget_device_seeds();
  std::set<std::uint64_t> found;
  for (const int ordinal : {0, 0, 1, 1}) {
    RunSeeds seeds;
    found.insert(seeds.draw(ordinal, place(0, 0)));
  }
  ipufeed::forget_device_seeds();
  RunSeeds seeds;
  found.insert(seeds.draw(0, place(0, 0)));
  CHECK(found.size() == 5);
}

TEST(synthetic_seeds_are_zero_and_one) {
  ipufeed::set_synthetic_seed(true);
  ipufeed::set_device_seed(0, 9, false);
  RunSeeds first;
  RunSeeds second;
  const auto drawn = first.draw(0, place(0, 0));
  CHECK(drawn == second.draw(0, place(0, 0)));
  ipufeed::set_synthetic_seed(false);
  CHECK(drawn == seed_of(0, 1, place(0, 0), 0));
}

TEST(mini_batches_are_counted_by_replica_and_pipeline) {
  RunSeeds seeds;
  seeds.add_mini_batches(0, 7, 4);
  seeds.add_mini_batches(0, 7, 4);
  CHECK(seeds.mini_batches(0, 7) == 8);
  CHECK(seeds.mini_batches(1, 7) == 0);
  CHECK(seeds.mini_batches(0, 8) == 0);
}

}  // namespace
