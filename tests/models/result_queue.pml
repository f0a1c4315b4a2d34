/* The results of a program (cc/core/result_queue.h): a ring, a store behind it, and the mutex
 * that makes its owner the ring's one reader.
 *
 *   writer: enqueue() x ELEMENTS, then the program ends     READERS readers: take(), next(),
 *   wait(), in any order, as long as READS allows           third: cancels, or does not
 *
 * The model and the code:
 *   first, filled, cancelled  feed_: elements first + 1 ... first + filled are in the ring.
 *                             Its waiting is proven by feed.pml: here a wait blocks until its
 *                             condition holds
 *   mutex                     mutex_: 0, or the number of its owner
 *   store, store_first        store_: elements store_first + 1 ... store_first + store
 *   stored_bytes, lifted      the atomics of the same names; an element has one byte
 *   spill(), drain()          the functions of the same names
 *   ended                     what stopped() of Outfeed::wait() and next() looks at
 * Each statement is one access of shared memory.
 *
 * A pause of the writer (kPauseNs) may end at any time. To go round the loop changes
 * nothing unless the writer can then spill, so that is when the pause ends here; likewise
 * a reader that polls for the mutex. Thus a program that waits for ever is a state that
 * nothing can leave. Time-outs of the caller are left out: the next call is the same.
 *
 * WAITS_FOR_ALL=1: the last reader lifts the limit and waits for the program's end, as
 * Outfeed::wait_for_all() does, before its last take(). READS=0 and WAITS_FOR_ALL=1: a
 * program whose results are read only when it has ended.
 *
 * PUTS_BACK=1 (READERS=1): a take() whose results cannot be used puts them back, as
 * Outfeed::dequeue() does. One reader: of two, the other may take what came later first.
 *
 * Proven: no deadlock; each element once and in order; two threads are never at the ring's
 * reading side; at the end delivered + stored + in the ring = enqueued, and without a
 * cancellation all are delivered by the last take(); the writer never waits while the
 * reader is away and the store has room.
 *
 * Each of these macros plants one bug, which the verifier must find:
 *   PLANT_PAUSE_FOREVER        PLANT_SPILL_WITHOUT_LOCK   PLANT_SPILL_KEEPS_LOCK
 *   PLANT_NEXT_IGNORES_STORE   PLANT_TAKE_KEEPS_BYTES     PLANT_TAKE_ONLY_STORE
 *   PLANT_SPILL_OVERTAKES      PLANT_WAIT_IGNORES_END     PLANT_NEXT_KEEPS_LOCK
 *   PLANT_IGNORES_LIFT (WAITS_FOR_ALL=1)                  PLANT_WRITER_IGNORES_CANCEL
 *   PLANT_PUT_BACK_BEHIND      PLANT_PUT_BACK_DROPS       PLANT_PUT_BACK_KEEPS_BYTES
 *                                                         (all PUTS_BACK=1)
 */
#ifndef CAPACITY
#define CAPACITY 1
#endif
#ifndef ELEMENTS
#define ELEMENTS 3
#endif
#ifndef LIMIT
#define LIMIT 100
#endif
#ifndef READERS
#define READERS 2
#endif
#ifndef READS
#define READS 2
#endif
#ifndef WAITS_FOR_ALL
#define WAITS_FOR_ALL 0
#endif
#ifndef CANCELS
#define CANCELS 0
#endif
#ifndef PUTS_BACK
#define PUTS_BACK 0
#endif

#define WRITER 1 /* owners of the mutex; readers follow */

/* feed.h, as far as it concerns the queue */
byte first, filled;
bool cancelled;
/* result_queue.h */
byte mutex;
byte store_first, store;
byte stored_bytes, lifted;
/* outfeed.h: closed_, or ends() is not seen_ends */
bool ended;

/* For the assertions only. */
byte at_the_ring; /* threads that read from the ring */
byte delivered, enqueued, refused, done;
bool writer_done;

inline drain(owner) {
  at_the_ring++;
  assert(at_the_ring == 1);
  do
  :: cancelled || filled == 0 -> break
  :: else ->
     atomic {
       if
       :: store == 0 -> store_first = first
       :: else -> assert(store_first + store == first)
       fi;
       first++;
       filled--
     };
     store++
  od;
  stored_bytes = store;
  at_the_ring--
}

/* ---- The writer ---- */

#ifdef PLANT_IGNORES_LIFT
#define HAS_ROOM (stored_bytes < LIMIT)
#else
#define HAS_ROOM (stored_bytes < LIMIT || lifted > 0)
#endif

/* With `got` as the result. */
inline spill() {
  got = false;
  if
  :: HAS_ROOM ->
#ifndef PLANT_SPILL_WITHOUT_LOCK
     atomic { if :: mutex == 0 -> mutex = WRITER; got = true :: else fi };
#else
     got = true;
#endif
     if
     :: got ->
        drain(WRITER);
#if !defined(PLANT_SPILL_WITHOUT_LOCK) && !defined(PLANT_SPILL_KEEPS_LOCK)
        mutex = 0
#endif
     :: else
     fi
  :: else
  fi
}

#ifdef PLANT_PAUSE_FOREVER
#define PAUSE_ENDS false
#else
#define PAUSE_ENDS (HAS_ROOM && mutex == 0)
#endif
#ifdef PLANT_WRITER_IGNORES_CANCEL
#define CANCEL_SEEN false
#else
#define CANCEL_SEEN cancelled
#endif

/* Feed::try_push() */
inline try_push() {
  atomic {
    got = (!cancelled && filled < CAPACITY);
    if
    :: got -> filled++; enqueued++
    :: else
    fi
  }
}

inline enqueue() {
  try_push();
  do
  :: got || CANCEL_SEEN -> break
  :: else ->
#ifdef PLANT_SPILL_OVERTAKES
     /* the new element goes into the store, and the older ones stay in the ring */
     got = false;
     atomic {
       if
       :: mutex == 0 && !cancelled ->
          if
          :: store == 0 -> store_first = enqueued
          :: else -> assert(store_first + store == enqueued)
          fi;
          store++;
          enqueued++;
          got = true
       :: else
       fi
     };
     if
     :: got -> break
     :: else
     fi;
#else
     spill();
     if
     :: got -> try_push()
     :: else ->
        (filled < CAPACITY || CANCEL_SEEN || PAUSE_ENDS); /* Feed::push() */
        try_push()
     fi
#endif
  od
}

proctype writer() {
  bool got;
  do
  :: enqueued == ELEMENTS || cancelled -> break
  :: else -> enqueue()
  od;
  writer_done = true;
  ended = true /* give_back(): runs_, then wake_reader() */
}

/* ---- The readers ---- */

inline deliver(from, count) {
  atomic {
    assert(count == 0 || from == delivered);
    delivered = delivered + count
  }
}

inline take() {
  atomic { mutex == 0 -> mutex = me };
#ifndef PLANT_TAKE_ONLY_STORE
  drain(me);
#endif
  taken_first = store_first;
  taken = store;
  store = 0;
#ifndef PLANT_TAKE_KEEPS_BYTES
  stored_bytes = 0;
#endif
  assert(stored_bytes == store); /* with the mutex it is exact */
#if !PUTS_BACK
  deliver(taken_first, taken);
#endif
  mutex = 0
}

/* What take() gave comes first again. */
inline put_back() {
  atomic { mutex == 0 -> mutex = me };
#ifdef PLANT_PUT_BACK_BEHIND
  if
  :: store > 0 && taken > 0 -> assert(store_first + store == taken_first)
  :: store == 0 -> store_first = taken_first
  :: else
  fi;
  store = store + taken;
#else
  assert(store == 0 || taken == 0 || taken_first + taken == store_first);
  if
  :: taken > 0 -> store_first = taken_first
  :: else
  fi;
#ifdef PLANT_PUT_BACK_DROPS
  store = taken;
#else
  store = store + taken;
#endif
#endif
#ifndef PLANT_PUT_BACK_KEEPS_BYTES
  stored_bytes = store;
#endif
  assert(stored_bytes == store);
  mutex = 0
}

/* take(), and what Outfeed::dequeue() does with it. */
inline dequeue() {
  take();
#if PUTS_BACK
  if
  :: deliver(taken_first, taken)
  :: put_back() /* `use` has failed */
  fi
#endif
}

/* acquire(): `got` is whether the caller is the reader now. */
inline acquire() {
  if
  :: atomic { mutex == 0 -> mutex = me }; got = true
  :: atomic { mutex != 0 && ended -> got = false }
  fi
}

#ifdef PLANT_WAIT_IGNORES_END
#define WAIT_ENDS (filled > 0 || cancelled)
#else
#define WAIT_ENDS (filled > 0 || cancelled || ended)
#endif

inline wait() {
  acquire();
  if
  :: got ->
     if
     :: store > 0
     :: else -> (WAIT_ENDS) /* with the mutex */
     fi;
     mutex = 0
  :: else
  fi
}

inline next() {
  acquire();
  if
  :: got ->
     if
#ifdef PLANT_NEXT_IGNORES_STORE
     :: false
#else
     :: store > 0 /* kStopped: take() has them */
#endif
     :: else ->
        (WAIT_ENDS);
        at_the_ring++;
        assert(at_the_ring == 1);
        if
        :: filled > 0 && !cancelled ->
           deliver(first, 1);
           atomic { first++; filled-- }
        :: else
        fi;
        at_the_ring--
     fi;
#ifndef PLANT_NEXT_KEEPS_LOCK
     mutex = 0
#endif
  :: else
  fi
}

proctype reader(byte me) {
  byte reads = READS;
  byte taken_first, taken;
  bool got;
  do
  :: reads == 0 -> break
  :: reads > 0 ->
     reads--;
     if
     :: dequeue()
     :: next()
     :: wait()
     fi
  od;
#if WAITS_FOR_ALL
  if
  :: me == WRITER + READERS ->
     lifted++;
     (writer_done);
     lifted--;
     take();
#if PUTS_BACK
     deliver(taken_first, taken)
#endif
  :: else
  fi;
#endif
  done++
}

#if CANCELS
proctype third() {
  ended = true; /* Outfeed::close(): closed_, then cancel() */
  cancelled = true
}
#endif

init {
  byte number;
  bool all;
  atomic {
    run writer();
    number = 0;
    do
    :: number == READERS -> break
    :: else -> number++; run reader(WRITER + number)
    od;
#if CANCELS
    run third();
#endif
  };
  (writer_done && done == READERS);
  assert(mutex == 0 && lifted == 0);
  assert(delivered + store + filled == enqueued);
  assert(cancelled || enqueued == ELEMENTS);
#if WAITS_FOR_ALL
  assert(cancelled || delivered == ELEMENTS)
#endif
}

ltl all_finish { <> (writer_done && done == READERS) }
