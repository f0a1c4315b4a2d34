// What a test build can change in the ring and in waiting; nothing in a release build.
//
//   -DIPUFEED_WEAKEN=n       the memory order with the number n becomes relaxed, so
//                            that a test can show that it fails without that order
//   -DIPUFEED_TEST_DELAYS    a seeded random delay at each IPUFEED_YIELD_POINT(),
//                            supplied by the test as ipufeed_test_delay(); a delay of
//                            the test's choice after the end of each ring of a feeder,
//                            supplied as ipufeed_test_ring_ended()
#pragma once

#ifdef IPUFEED_WEAKEN
#define IPUFEED_ORDER(number, order) \
  (IPUFEED_WEAKEN == (number) ? std::memory_order_relaxed : (order))
#else
#define IPUFEED_ORDER(number, order) (order)
#endif

#ifdef IPUFEED_TEST_DELAYS
void ipufeed_test_delay();
void ipufeed_test_ring_ended();
#define IPUFEED_YIELD_POINT() ipufeed_test_delay()
#define IPUFEED_RING_ENDED() ipufeed_test_ring_ended()
#else
#define IPUFEED_YIELD_POINT() ((void)0)
#define IPUFEED_RING_ENDED() ((void)0)
#endif
