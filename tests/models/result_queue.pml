/* The results of a program (cc/core/result_queue.h): a ring, a store behind it, and the role
 * (cc/core/reader_role.h) that makes its owner the ring's one reader.
 *
 *   writer: enqueue() x ELEMENTS, then the program ends     READERS readers: take(), next(),
 *   wait(), a look, in any order, as long as READS allows   third: cancels, or does not
 *
 * The model and the code:
 *   first, filled, cancelled  feed_: elements first + 1 ... first + filled are in the ring
 *   reader_parked,            its two wait points: a thread that waits parks, looks at its
 *   writer_parked             condition, and sleeps until a notification. That this handshake
 *                             loses none is proven by feed.pml; what is proven here is that
 *                             there is one for each change that a thread waits for
 *   role, wanted              role_: 0, or the number of its owner; takers that wait for it.
 *                             Waiting for it is a condition variable's, under its mutex: here
 *                             it blocks until its condition holds
 *   store, store_first        store_: elements store_first + 1 ... store_first + store
 *   stored_bytes, lifted      the atomics of the same names; an element has one byte
 *   store_straight(), drain() the functions of the same names
 *   ended                     what stopped() of Outfeed::wait() and next() looks at
 * Each statement is one access of shared memory.
 *
 * Time-outs of the caller are left out: the next call is the same. A next() whose deadline is
 * over is look().
 *
 * WAITS_FOR_ALL=1: the last reader lifts the limit and waits for the program's end, as
 * Outfeed::wait_for_all() does, before its last take(). READS=0 and WAITS_FOR_ALL=1: a
 * program whose results are read only when it has ended.
 *
 * HELD=1: the program ends when one more thread has taken what is there: a taker must not
 * wait for a reader that sleeps at the ring.
 *
 * PUTS_BACK=1 (READERS=1): a take() whose results cannot be used puts them back, as
 * Outfeed::take_all() does. One reader: of two, the other may take what came later first.
 *
 * Proven: no deadlock; each element once and in order; two threads are never at the ring's
 * reading side; at the end delivered + stored + in the ring = enqueued, and without a
 * cancellation all are delivered by the last take(); the writer never waits while the
 * reader is away and the store has room.
 *
 * Each of these macros plants one bug, which the verifier must find:
 *   PLANT_ROLE_WITHOUT_WAKE    PLANT_STORE_WITHOUT_ROLE   PLANT_STORE_KEEPS_ROLE
 *   PLANT_NEXT_IGNORES_STORE   PLANT_TAKE_KEEPS_BYTES     PLANT_TAKE_ONLY_STORE
 *   PLANT_STORE_OVERTAKES      PLANT_WAIT_IGNORES_END     PLANT_NEXT_KEEPS_ROLE
 *   PLANT_IGNORES_LIFT         PLANT_LIFT_WITHOUT_WAKE    (both WAITS_FOR_ALL=1)
 *   PLANT_WRITER_IGNORES_CANCEL
 *   PLANT_TAKER_WITHOUT_WAKE   PLANT_IGNORES_TAKER        (both HELD=1)
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
#ifndef HELD
#define HELD 0
#endif

#define WRITER 1 /* owners of the role; readers follow, and the taker of HELD */

/* feed.h, as far as it concerns the queue */
byte first, filled;
bool cancelled, reader_parked, writer_parked;
/* reader_role.h */
byte role, wanted;
/* result_queue.h */
byte store_first, store;
byte stored_bytes, lifted;
/* outfeed.h: closed_, or ends() is not seen_ends */
bool ended;

/* For the assertions only. */
byte at_the_ring; /* threads that read from the ring */
byte delivered, enqueued, refused, done;
bool writer_done, looked;

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

#define ROLE_IS_FREE (role == 0 && wanted == 0)

#ifdef PLANT_WRITER_IGNORES_CANCEL
#define CANCEL_SEEN false
#else
#define CANCEL_SEEN cancelled
#endif

/* Puts one more element behind what is stored. */
inline store_one() {
  atomic {
    if
    :: store == 0 -> store_first = enqueued
    :: else -> assert(store_first + store == enqueued)
    fi;
    store++;
    enqueued++;
    if
    :: filled == 0 -> first = enqueued
    :: else
    fi
  }
}

/* With `got` as the result. */
inline store_straight() {
  got = false;
  if
  :: HAS_ROOM && !cancelled ->
#ifndef PLANT_STORE_WITHOUT_ROLE
     atomic { if :: ROLE_IS_FREE -> role = WRITER; got = true :: else fi };
#else
     got = true;
#endif
     if
     :: got ->
#ifndef PLANT_STORE_OVERTAKES
        drain(WRITER);
#endif
        if
        :: cancelled -> got = false /* what is in the ring stays there: nothing goes behind it */
        :: !cancelled && !HAS_ROOM -> got = false /* the ring has room now */
        :: !cancelled && HAS_ROOM -> store_one()
        fi;
        stored_bytes = store;
#if !defined(PLANT_STORE_WITHOUT_ROLE) && !defined(PLANT_STORE_KEEPS_ROLE)
        role = 0
#endif
     :: else
     fi
  :: else
  fi
}

/* Feed::try_push() */
inline try_push() {
  atomic {
    got = (!cancelled && filled < CAPACITY);
    if
    :: got -> filled++; enqueued++
    :: else
    fi
  };
  reader_parked = false
}

/* Feed::push(), until it has room or may_store() holds */
inline wait_for_room() {
  do
  :: writer_parked = true;
     if
     :: filled < CAPACITY || CANCEL_SEEN || (HAS_ROOM && ROLE_IS_FREE) -> break
     :: else -> (!writer_parked)
     fi
  od;
  writer_parked = false
}

inline enqueue() {
  got = false;
  if
  :: stored_bytes > 0 -> store_straight()
  :: else
  fi;
  if
  :: !got ->
     try_push();
     do
     :: got || CANCEL_SEEN -> break
     :: else ->
        store_straight();
        if
        :: got
        :: else ->
           wait_for_room();
           try_push()
        fi
     od
  :: else
  fi
}

proctype writer() {
  bool got;
  do
  :: enqueued == ELEMENTS || cancelled -> break
  :: else -> enqueue()
  od;
#if HELD
  (looked);
#endif
  writer_done = true;
  ended = true; /* give_back(): runs_, then wake_reader() */
  reader_parked = false
}

/* ---- The readers ---- */

inline deliver(from, count) {
  atomic {
    assert(count == 0 || from == delivered);
    delivered = delivered + count
  }
}

/* ReaderRole::lock_now() */
inline lock_now() {
  atomic {
    got = (role == 0);
    if
    :: got -> role = me
    :: else -> wanted++
    fi
  };
  if
  :: got
  :: else ->
#ifndef PLANT_TAKER_WITHOUT_WAKE
     reader_parked = false;
#endif
     atomic { role == 0 -> role = me; wanted-- }
  fi
}

/* ~Reading() */
inline release() {
  role = 0;
#ifndef PLANT_ROLE_WITHOUT_WAKE
  writer_parked = false
#endif
}

inline take() {
  lock_now();
#ifndef PLANT_TAKE_ONLY_STORE
  drain(me);
#endif
  taken_first = store_first;
  taken = store;
  store = 0;
#ifndef PLANT_TAKE_KEEPS_BYTES
  stored_bytes = 0;
#endif
  assert(stored_bytes == store); /* with the role it is exact */
#if !PUTS_BACK
  deliver(taken_first, taken);
#endif
  release()
}

/* What take() gave comes first again. */
inline put_back() {
  lock_now();
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
  release()
}

/* take(), and what Outfeed::take_all() does with it. */
inline dequeue() {
  take();
#if PUTS_BACK
  if
  :: deliver(taken_first, taken)
  :: put_back() /* they cannot be used */
  fi
#endif
}

/* ReaderRole::lock(): `got` is whether the caller is the reader now. */
inline acquire() {
  if
  :: atomic { ROLE_IS_FREE -> role = me }; got = true
  :: atomic { !ROLE_IS_FREE && ended -> got = false }
  fi
}

#ifdef PLANT_WAIT_IGNORES_END
#define END_SEEN cancelled
#else
#define END_SEEN (cancelled || ended)
#endif
#ifdef PLANT_IGNORES_TAKER
#define TAKER_SEEN false
#else
#define TAKER_SEEN (wanted > 0)
#endif

/* Sleeps at the ring, with the role. */
inline wait_readable() {
  do
  :: reader_parked = true;
     if
     :: filled > 0 || END_SEEN || TAKER_SEEN -> break
     :: else -> (!reader_parked)
     fi
  od;
  reader_parked = false
}

/* The oldest element, with the role; `got`: there was one. */
inline pop() {
#ifdef PLANT_NEXT_IGNORES_STORE
  got = false;
#else
  got = (store > 0);
#endif
  if
  :: got ->
     deliver(store_first, 1);
     store_first++;
     store--;
     stored_bytes = store
  :: else ->
     at_the_ring++;
     assert(at_the_ring == 1);
     got = (filled > 0 && !cancelled);
     if
     :: got ->
        deliver(first, 1);
        atomic { first++; filled-- };
        writer_parked = false /* made_room() */
     :: else
     fi;
     at_the_ring--
  fi
}

inline wait() {
  acquire();
  if
  :: got ->
     if
     :: store > 0
     :: else -> wait_readable()
     fi;
     release()
  :: else
  fi
}

inline next() {
  do
  :: acquire();
     if
     :: !got -> break
     :: else ->
        if
        :: store > 0
        :: else -> wait_readable()
        fi;
        pop();
#ifndef PLANT_NEXT_KEEPS_ROLE
        release();
#endif
        if
        :: got || END_SEEN -> break
        :: else /* a taker wanted the role */
        fi
     fi
  od
}

/* next() whose deadline is over */
inline look() {
  lock_now();
  pop();
  release()
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
     :: look()
     fi
  od;
#if WAITS_FOR_ALL
  if
  :: me == WRITER + READERS ->
     lifted++;
#ifndef PLANT_LIFT_WITHOUT_WAKE
     writer_parked = false;
#endif
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

#if HELD
/* One more thread, which is not of those that wait. */
proctype taker(byte me) {
  byte taken_first, taken;
  bool got;
  take();
  looked = true
}
#endif

#if CANCELS
proctype third() {
  ended = true; /* Outfeed::close(): closed_, then cancel() */
  cancelled = true;
  reader_parked = false;
  writer_parked = false
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
#if HELD
    run taker(WRITER + READERS + 1);
#endif
#if CANCELS
    run third();
#endif
  };
  (writer_done && done == READERS);
  assert(role == 0 && wanted == 0 && lifted == 0);
  assert(delivered + store + filled == enqueued);
  assert(cancelled || enqueued == ELEMENTS);
#if WAITS_FOR_ALL
  assert(cancelled || delivered == ELEMENTS)
#endif
}

ltl all_finish { <> (writer_done && done == READERS) }
