/* The feed: a ring, two waiting sides, close, cancel (cc/core/feed.h, wait.h, spsc_ring.h).
 *
 *   writer: push x ELEMENTS, end     reader: pop until an end     third: cancel, or not
 *
 * One statement is one access to shared memory; what a thread keeps to itself costs
 * nothing. Memory is sequentially consistent here: the orders [1] to [8] are guarded by
 * ThreadSanitizer (tests/cc), [7] and [8] also by the variants that move an access across.
 *
 * A wait may also carry a deadline that is over (POLLS of them per side, at any time).
 * Such a wait never sleeps, so it hides no lost wake-up from the others. The spin is
 * left out: it repeats the look that comes before it. NAPS of the reader's waits begin
 * with a nap, which can expire at any time. A writer that is slow pushes only when all
 * before has been delivered, so that it repairs no lost wake-up by its next push.
 *
 * With STOPS=1 the third party stops the reader's program and not the feed, with STOPS=2
 * the writer's: the call that waits returns, and the next one goes on. The other side is
 * silent until then, so that nothing but the stop can wake the side that waits.
 *
 * Each of these macros plants one bug, which the verifier must find (README.md):
 *   PLANT_NOTIFY_BEFORE_PUBLISH  PLANT_NOTIFY_BEFORE_RELEASE
 *   PLANT_READER_NO_RECHECK      PLANT_WRITER_NO_RECHECK
 *   PLANT_READER_IGNORES_CLOSE   PLANT_END_WITHOUT_NOTIFY
 *   PLANT_CANCEL_ONLY_READER     PLANT_CANCEL_ONLY_WRITER
 *   PLANT_READER_IGNORES_CANCEL  PLANT_WRITER_IGNORES_CANCEL
 *   PLANT_READER_NO_ORDER_7      PLANT_WRITER_NO_ORDER_7
 *   PLANT_WRITER_NO_ORDER_8      PLANT_READER_NO_ORDER_8
 *   PLANT_DRAINED_ORDER          PLANT_CLOSE_BEFORE_ERROR
 *   PLANT_NAP_NEVER_ENDS         PLANT_PARKED_WOKEN_ONLY_IF_URGENT
 *   PLANT_IGNORES_STOP           PLANT_STOP_WITHOUT_WAKE        PLANT_WAKE_BEFORE_STOP
 * PLANT_NAP_... and PLANT_PARKED_... need a feed that holds an element and is not half
 * full: CAPACITY=3. The last three are for STOPS=1 and STOPS=2.
 */
#ifndef CAPACITY
#define CAPACITY 1
#endif
#define ELEMENTS (CAPACITY + 2)
#ifndef POLLS
#define POLLS 1
#endif
#ifndef NAPS
#define NAPS 1
#endif

#ifndef STOPS
#define STOPS 0
#endif

#define OPEN 0
#define ENDED 1
#define CANCELLED 2

#define AWAKE 0
#define PARKED 1
#define NAPPING 2

/* spsc_ring.h */
byte slots[CAPACITY];
byte committed, released;
bool closed;
/* feed.h */
byte state = OPEN;
byte error;
/* wait.h: the word of each side, and whether the kernel holds the side asleep on it */
byte reader_word, writer_word;
bool reader_asleep, writer_asleep;

/* What each side has done, for the assertions only. */
byte pushed, delivered;
byte writer_outcome, reader_outcome;
bool writer_done, reader_done, third_done;

/* A program's own flag, and that its call has returned because of it. */
bool stop_flag, stop_seen;
#ifdef PLANT_IGNORES_STOP
#define STOPPED(side) false
#else
#define STOPPED(side) (STOPS == side && stop_flag)
#endif
#define READER_STOPPED STOPPED(1)
#define WRITER_STOPPED STOPPED(2)

/* FUTEX_WAIT: compare and fall asleep are one step of the kernel. */
inline futex_wait(word, asleep) {
  atomic { asleep = (word == PARKED) };
  (!asleep)
}

inline exchange(word, value, was) { atomic { was = word; word = value } }

/* WaitPoint::notify(). FUTEX_WAKE is a step of its own. */
inline wake(word, asleep, was) {
  exchange(word, AWAKE, was);
  if
  :: was != AWAKE -> asleep = false
  :: else
  fi
}
inline notify(word, asleep, was) {
  was = word; /* [8] */
  if
  :: was != AWAKE -> wake(word, asleep, was)
  :: else
  fi
}

/* Likewise by push(): a napping reader is woken only when the feed is half full. */
#define HALF_FULL (2 * (committed - released_seen) >= CAPACITY)
#ifdef PLANT_PARKED_WOKEN_ONLY_IF_URGENT
#define CAN_BE_LEFT (was == NAPPING || was == PARKED)
#else
#define CAN_BE_LEFT (was == NAPPING)
#endif
inline wake_if_needed() {
  if
  :: was == AWAKE
  :: CAN_BE_LEFT ->
     released_seen = released;
     if
     :: HALF_FULL -> wake(reader_word, reader_asleep, was)
     :: else
     fi
  :: else -> wake(reader_word, reader_asleep, was)
  fi
}
inline notify_by_push() {
  was = reader_word; /* [8] */
  wake_if_needed()
}

/* The third party. */
inline cancel(was) {
  atomic { if :: state == OPEN -> state = CANCELLED :: else fi };
#ifndef PLANT_CANCEL_ONLY_WRITER
  notify(reader_word, reader_asleep, was);
#endif
#ifndef PLANT_CANCEL_ONLY_READER
  notify(writer_word, writer_asleep, was)
#endif
}

/* Program::stop(): the flag, then Feed::wake_reader() or wake_writer(). */
inline wake_stopped(was) {
#if STOPS == 1
  notify(reader_word, reader_asleep, was)
#else
  notify(writer_word, writer_asleep, was)
#endif
}
inline stop(was) {
#ifdef PLANT_WAKE_BEFORE_STOP
  wake_stopped(was);
  stop_flag = true
#else
  stop_flag = true;
#ifndef PLANT_STOP_WITHOUT_WAKE
  wake_stopped(was)
#endif
#endif
}

proctype third() {
  byte was;
#if STOPS
  stop(was);
#else
  if
  :: cancel(was)
  :: skip
  fi;
#endif
  third_done = true
}

/* kStopped: the next program has a flag of its own. */
inline return_stopped() { d_step { stop_flag = false; stop_seen = true } }

/* ---- The writer ---- */

/* SpscRing::try_claim(1) */
#define FREE_SEEN (committed - released_seen < CAPACITY)
inline try_claim() {
  if
  :: FREE_SEEN
  :: else -> released_seen = released
  fi;
  got = FREE_SEEN
}

/* The condition in Feed::push(). */
inline writer_ready() {
  try_claim();
  ready = got;
  if
  :: !ready -> ready = WRITER_STOPPED
  :: else
  fi;
#ifndef PLANT_WRITER_IGNORES_CANCEL
  if
  :: !ready -> ready = (state != OPEN)
  :: else
  fi
#endif
}

/* WaitPoint::wait(), with the writer's word. */
inline writer_wait() {
  writer_ready();
  do
  :: ready -> break
  :: else ->
#if defined(PLANT_WRITER_NO_ORDER_7)
     writer_ready();
     exchange(writer_word, PARKED, was);
#elif defined(PLANT_WRITER_NO_RECHECK)
     exchange(writer_word, PARKED, was);
#else
     exchange(writer_word, PARKED, was); /* [7] */
     writer_ready();
#endif
     if
     :: ready -> exchange(writer_word, AWAKE, was); break
     :: !ready && poll -> exchange(writer_word, AWAKE, was); writer_ready(); break
     :: !ready && !poll ->
        futex_wait(writer_word, writer_asleep);
#ifdef PLANT_WRITER_NO_RECHECK
        writer_ready()
#endif
     fi
  od
}

/* SpscRing::commit(1), then reader_.notify() */
inline publish() {
  slots[committed % CAPACITY] = pushed + 1;
#if defined(PLANT_NOTIFY_BEFORE_PUBLISH)
  notify_by_push();
  committed++
#elif defined(PLANT_WRITER_NO_ORDER_8)
  was = reader_word; /* the processor looks at the word before its store is out */
  committed++;
  wake_if_needed()
#else
  committed++;
  notify_by_push()
#endif
}

/* Feed::end() or fail(). */
inline end() {
#ifndef PLANT_CLOSE_BEFORE_ERROR
  error = 1;
#endif
  atomic { got = (state == OPEN); if :: got -> state = ENDED :: else fi };
  if
  :: got ->
     closed = true;
#ifdef PLANT_CLOSE_BEFORE_ERROR
     error = 1;
#endif
#ifndef PLANT_END_WITHOUT_NOTIFY
     notify(reader_word, reader_asleep, was)
#endif
  :: else
  fi
}

proctype writer() {
  byte released_seen;
  byte polls = POLLS;
  bool got, ready, poll, slow;
  byte was;

#if !STOPS
  if
  :: slow = true
  :: slow = false
  fi;
#endif
  do
  :: pushed == ELEMENTS -> break
  :: else -> /* Feed::push() */
     if
     :: slow -> (delivered == pushed || state != OPEN)
     :: else
     fi;
#if STOPS == 1
     (stop_seen); /* a dataset that gives nothing */
#endif
     if
     :: polls > 0 -> d_step { polls--; poll = true }
     :: poll = false
     fi;
     if
     :: state != OPEN -> writer_outcome = CANCELLED; break
     :: else
     fi;
     try_claim();
     if
     :: got
     :: else ->
        writer_wait();
        if
        :: state != OPEN -> writer_outcome = CANCELLED; break
        :: else
        fi;
        if
        :: !ready -> goto timed_out /* the element is still the writer's */
        :: else
        fi;
        try_claim();
        if
        :: !got && WRITER_STOPPED -> return_stopped(); goto timed_out
        :: else
        fi;
        assert(got)
     fi;
     publish();
     pushed++;
timed_out:
     skip
  od;
  end();
  writer_done = true
}

/* ---- The reader ---- */

/* SpscRing::try_readable(1) */
#define FILLED_SEEN (committed_seen - released > 0)
inline try_readable() {
  if
  :: FILLED_SEEN
  :: else -> committed_seen = committed
  fi;
  got = FILLED_SEEN
}

/* The condition in Feed::pop(). */
inline reader_ready() {
  try_readable();
  ready = got;
#ifndef PLANT_READER_IGNORES_CLOSE
  if
  :: !ready -> ready = closed
  :: else
  fi;
#endif
  if
  :: !ready -> ready = READER_STOPPED
  :: else
  fi;
#ifndef PLANT_READER_IGNORES_CANCEL
  if
  :: !ready -> ready = (state == CANCELLED)
  :: else
  fi
#endif
}

/* WaitPoint::nap(): as sleep() below, but the time ends it, too. */
inline reader_nap() {
  do
  :: exchange(reader_word, NAPPING, was); /* [7] */
     reader_ready();
     if
     :: ready -> exchange(reader_word, AWAKE, was); break
     :: !ready ->
        atomic { reader_asleep = (reader_word == NAPPING) };
        if
        :: (!reader_asleep)
#ifndef PLANT_NAP_NEVER_ENDS
        :: reader_asleep = false;
           exchange(reader_word, AWAKE, was);
           reader_ready();
           break
#endif
        fi
     fi
  od
}

/* WaitPoint::wait(), with the reader's word. */
inline reader_wait() {
  reader_ready();
  if
  :: !ready && !poll && naps > 0 -> naps--; reader_nap()
  :: true
  fi;
  do
  :: ready -> break
  :: else ->
#if defined(PLANT_READER_NO_ORDER_7)
     reader_ready();
     exchange(reader_word, PARKED, was);
#elif defined(PLANT_READER_NO_RECHECK)
     exchange(reader_word, PARKED, was);
#else
     exchange(reader_word, PARKED, was); /* [7] */
     reader_ready();
#endif
     if
     :: ready -> exchange(reader_word, AWAKE, was); break
     :: !ready && poll -> exchange(reader_word, AWAKE, was); reader_ready(); break
     :: !ready && !poll ->
        futex_wait(reader_word, reader_asleep);
#ifdef PLANT_READER_NO_RECHECK
        reader_ready()
#endif
     fi
  od
}

/* SpscRing::drained(): the result is in `got`. */
inline drained() {
#ifdef PLANT_DRAINED_ORDER
  try_readable();
  if
  :: got -> got = false
  :: else -> got = closed
  fi
#else
  if
  :: closed -> try_readable(); got = !got
  :: else -> got = false
  fi
#endif
}

/* Takes the element out; release(1), then writer_.notify_if() when half empty: a writer
 * that sleeps is woken if the ring is so when it is looked at again. */
#define HALF_EMPTY (committed_seen - released <= CAPACITY / 2)
inline notify_by_pop() {
  was = writer_word; /* [8] */
  if
  :: was != AWAKE ->
     committed_seen = committed;
     if
     :: HALF_EMPTY -> wake(writer_word, writer_asleep, was)
     :: else
     fi
  :: else
  fi
}
inline take() {
  assert(slots[released % CAPACITY] == delivered + 1);
  delivered++;
#if defined(PLANT_NOTIFY_BEFORE_RELEASE)
  notify(writer_word, writer_asleep, was);
  released++
#elif defined(PLANT_READER_NO_ORDER_8)
  was = writer_word; /* the processor looks at the word before its store is out */
  released++;
  if
  :: HALF_EMPTY && was != AWAKE -> wake(writer_word, writer_asleep, was)
  :: else
  fi
#else
  released++;
  if
  :: HALF_EMPTY -> notify_by_pop()
  :: else
  fi
#endif
}

proctype reader() {
  byte committed_seen;
  byte polls = POLLS;
  byte naps = NAPS;
  bool got, ready, poll;
  byte was;

#if STOPS == 2
  (stop_seen); /* a host that reads nothing */
#endif
  do
  :: /* Feed::pop() */
     if
     :: polls > 0 -> d_step { polls--; poll = true }
     :: poll = false
     fi;
     if
     :: state == CANCELLED -> reader_outcome = CANCELLED; break
     :: else
     fi;
     try_readable();
     if
     :: got
     :: else ->
        reader_wait();
        if
        :: state == CANCELLED -> reader_outcome = CANCELLED; break
        :: else
        fi;
        try_readable();
        if
        :: got
        :: else ->
           drained();
           if
           :: got -> reader_outcome = state; break
           :: else
           fi;
           if
           :: !ready -> goto timed_out
           :: else
           fi;
           try_readable();
           if
           :: !got && READER_STOPPED -> return_stopped(); goto timed_out
           :: else
           fi;
           assert(got)
        fi
     fi;
     take();
timed_out:
     skip
  od;
  if
  :: reader_outcome == ENDED -> assert(error == 1)
  :: else
  fi;
  reader_done = true
}

init {
  atomic { run writer(); run reader(); run third() };
  (writer_done && reader_done && third_done);
  assert(delivered + (committed - released) == pushed);
  assert(reader_outcome == state);
  assert(state != ENDED || (delivered == ELEMENTS && committed == released));
  assert(writer_outcome == OPEN || state == CANCELLED)
}

ltl both_sides_finish { <> (writer_done && reader_done) }
