/* The results of replicas (cc/feeds/outfeed.cc: enqueue_part, wait_for_round, leave, enqueue; and
 * what cc/run/program.cc does with them: leave, stop).
 *
 *   REPLICAS replicas, each: enqueue_part() x any number up to PARTS, then leave()
 *   a reader takes the results; a third party stops the program, closes the queue, or neither
 *
 * A result (a round) is made of one part of each replica. A replica may have given OPEN
 * parts more than the slowest one (kOpenRounds). A replica whose call fails stops the
 * program with its error, as run_on_ipus() does for it.
 *
 *   STOPS=0   no stop from outside; the parts of two replicas may differ in number, which
 *             is an error of the program
 *   STOPS=1   a third party stops the program at any time (Ctrl-C)
 *   STOPS=2   a replica ends because its dataset does: it stops the program with
 *             kOutOfRange, and the others still give what belongs to its rounds
 *   STOPS=3   a third party closes the queue at any time
 *
 * The model and the code:
 *   rounds_locked, sleeping       rounds_mutex_ and round_given_
 *   program_locked, stop_flag, why  Program::mutex_, stopped_ and why_
 *   given, has_left, first_round, missing    given_, left_, first_round_, rounds_[k].missing
 *   copied                        the parts that are in rounds_[k].whole: written without the
 *                                 lock
 *   queued, QUEUE                 queue_: its elements, and how many the ring and the store
 *                                 take; result_queue.pml has its inside
 *   closed                        closed_, and the state of queue_
 * Each statement is one access of shared memory.
 *
 * Proven: no deadlock; a result is whole when it is enqueued; results come in order and from
 * one thread at a time; if all replicas give as many parts, all results come and no call
 * fails; if not, an error says so, whatever the interleaving (STOPS=0); all results that all
 * replicas have parts for come, also when the end of the dataset stops the program (STOPS=2).
 *
 * Each of these macros plants one bug, which the verifier must find:
 *   PLANT_ROUND_WITHOUT_NOTIFY  PLANT_LEFT_IS_NOT_CHECKED  PLANT_LEAVE_CHECKS_NOTHING
 *   PLANT_MISSING_BEFORE_COPY   PLANT_UNLOCKED_LEAVE
 *   PLANT_REPORT_WITH_LOCK (STOPS=1, REPORTS=1)
 *   PLANT_STOP_WITHOUT_WAKE, PLANT_WAKE_WITHOUT_LOCK (STOPS=1)
 *   PLANT_END_OF_DATASET_IS_A_STOP, PLANT_STOP_LOSES_RESULT (STOPS=2)
 *   PLANT_IGNORES_CLOSE (STOPS=3)
 */
#ifndef REPLICAS
#define REPLICAS 2
#endif
#ifndef PARTS
#define PARTS 3
#endif
#ifndef OPEN
#define OPEN 1
#endif
#ifndef QUEUE
#define QUEUE 1
#endif
#ifndef STOPS
#define STOPS 0
#endif
#ifndef REPORTS
#define REPORTS 0
#endif

#define NOT_STOPPED 0
#define CANCELLED 1
#define OUT_OF_RANGE 2
#define FAILED 3

/* program.h */
bool program_locked;
bool stop_flag;
byte why = NOT_STOPPED;
/* outfeed.h */
bool rounds_locked;
bool sleeping[REPLICAS];
byte given[REPLICAS];
bool has_left[REPLICAS];
byte first_round, opened;
byte missing[PARTS + 1], copied[PARTS + 1];
byte queued;
bool closed;

/* For the assertions only. */
byte wanted[REPLICAS];
byte in_queue, enqueued, taken, done;
bool error, reader_done;

#define OTHER(number) ((me + number) % REPLICAS)

inline lock_program() { atomic { !program_locked -> program_locked = true } }
inline unlock_program() { program_locked = false }
inline lock_rounds() { atomic { !rounds_locked -> rounds_locked = true } }
inline unlock_rounds() { rounds_locked = false }
inline notify_rounds() {
  d_step { sleeping[0] = false; sleeping[1] = false; sleeping[REPLICAS - 1] = false }
}

/* Program::stop(), Outfeed::wake() */
inline wake() {
#if defined(PLANT_STOP_WITHOUT_WAKE)
  skip
#elif defined(PLANT_WAKE_WITHOUT_LOCK)
  notify_rounds()
#else
  lock_rounds();
  notify_rounds();
  unlock_rounds()
#endif
}
inline stop(reason) {
  lock_program();
  if
  :: !stop_flag -> why = reason
  :: else
  fi;
  stop_flag = true;
  wake();
  unlock_program()
}

/* is_over(): the result is in `over`. stop_status() takes the program's lock. */
inline is_over() {
  over = stop_flag;
  if
  :: over ->
     lock_program();
#ifndef PLANT_END_OF_DATASET_IS_A_STOP
     over = (why != OUT_OF_RANGE);
#endif
     unlock_program()
  :: else
  fi
}

/* check_left() != OK: a replica has ended without the part that the caller's next needs. */
#ifdef PLANT_LEFT_IS_NOT_CHECKED
#define A_PART_IS_MISSING false
#else
#define HAS_LEFT(r) (has_left[r] && given[r] <= given[me])
#define A_PART_IS_MISSING (HAS_LEFT(0) || HAS_LEFT(1) || HAS_LEFT(REPLICAS - 1))
#endif
#define GAVE_MORE \
  (given[0] > given[me] || given[1] > given[me] || given[REPLICAS - 1] > given[me])

/* Outfeed::enqueue(), of the round `number` */
inline enqueue() {
  is_over();
  if
  :: over -> ok = false
  :: else ->
     in_queue++;
     assert(in_queue == 1);
     assert(number == enqueued);
#ifdef PLANT_IGNORES_CLOSE
     (queued < QUEUE || stop_flag);
#else
     (queued < QUEUE || stop_flag || closed);
#endif
     if
     :: closed -> ok = false
     :: !closed && queued < QUEUE -> queued++; enqueued++
     :: !closed && queued >= QUEUE ->
        is_over();
#ifdef PLANT_STOP_LOSES_RESULT
        over = true;
#endif
        if
        :: over -> ok = false
        :: else -> queued++; enqueued++ /* beyond the limit */
        fi
     fi;
     in_queue--
  fi
}

/* `ok`: whether the call has succeeded. */
inline enqueue_part() {
  is_over();
  if
  :: over -> ok = false; goto returned
  :: else
  fi;
  lock_rounds();
  do /* wait_for_round() */
  :: given[me] - first_round < OPEN -> break
  :: else ->
     if
     :: stop_flag -> unlock_rounds(); ok = false; goto returned
     :: else
     fi;
     if
     :: A_PART_IS_MISSING -> break
     :: else
     fi;
     if
     :: reports > 0 ->
        reports--;
#ifndef PLANT_REPORT_WITH_LOCK
        unlock_rounds();
#endif
        lock_program(); /* describe_feeds() */
        unlock_program();
#ifndef PLANT_REPORT_WITH_LOCK
        lock_rounds()
#endif
     :: atomic { sleeping[me] = true; rounds_locked = false };
        atomic { (!sleeping[me] && !rounds_locked) -> rounds_locked = true }
     fi
  od;
  if
  :: A_PART_IS_MISSING -> unlock_rounds(); ok = false; error = true; goto returned
  :: else
  fi;
  number = given[me];
  if
  :: number == opened -> missing[number] = REPLICAS; opened++ /* open_round() */
  :: else
  fi;
  given[me] = number + 1;
  unlock_rounds();
#ifndef PLANT_MISSING_BEFORE_COPY
  copied[number] = copied[number] + 1;
#endif
  lock_rounds();
  missing[number] = missing[number] - 1;
  if
  :: missing[number] > 0 -> unlock_rounds()
  :: else ->
     assert(number == first_round); /* the front of rounds_ */
     assert(copied[number] == REPLICAS);
     first_round++;
#ifndef PLANT_ROUND_WITHOUT_NOTIFY
     notify_rounds();
#endif
     unlock_rounds();
     enqueue()
  fi;
#ifdef PLANT_MISSING_BEFORE_COPY
  copied[number] = copied[number] + 1;
#endif
returned:
  skip
}

/* Program::leave(), Outfeed::leave() */
inline leave() {
  lock_program();
#ifndef PLANT_UNLOCKED_LEAVE
  lock_rounds();
#endif
  has_left[me] = true;
  notify_rounds();
#ifndef PLANT_LEAVE_CHECKS_NOTHING
  ok = !GAVE_MORE;
#endif
#ifndef PLANT_UNLOCKED_LEAVE
  unlock_rounds();
#endif
  if
  :: !ok && !stop_flag -> error = true
  :: else -> ok = true
  fi;
  unlock_program()
}

proctype replica(byte me) {
  byte number, own;
  byte reports = REPORTS;
  bool over, ok = true;

  select (own : 0 .. PARTS);
  wanted[me] = own;
  do
  :: !ok || given[me] == wanted[me] -> break
  :: else -> enqueue_part()
  od;
  if
  :: !ok -> stop(FAILED)
  :: else ->
#if STOPS == 2
     stop(OUT_OF_RANGE)
#else
     leave();
     if
     :: !ok -> stop(FAILED)
     :: else
     fi
#endif
  fi;
  done++
}

proctype reader() {
  do
  :: queued > 0 -> queued--; taken++
  :: done == REPLICAS && queued == 0 -> break
  :: closed -> break
  od;
  reader_done = true
}

#if STOPS == 1
proctype third() { stop(CANCELLED) }
#elif STOPS == 3
proctype third() { closed = true }
#endif

#define LEAST                                                                \
  (wanted[0] < wanted[1] && wanted[0] < wanted[REPLICAS - 1]                 \
       -> wanted[0]                                                          \
       : (wanted[1] < wanted[REPLICAS - 1] -> wanted[1] : wanted[REPLICAS - 1]))
#define ALL_EQUAL (wanted[0] == wanted[1] && wanted[0] == wanted[REPLICAS - 1])

init {
  byte number;
  atomic {
    do
    :: number == REPLICAS -> break
    :: else -> run replica(number); number++
    od;
    run reader();
#if STOPS == 1 || STOPS == 3
    run third();
#endif
  };
  (done == REPLICAS && reader_done);
  assert(taken + queued == enqueued);
#if STOPS == 0
  assert(error == !ALL_EQUAL);
  assert(error || enqueued == LEAST);
#endif
#if STOPS == 2
  assert(enqueued == LEAST);
#endif
}

ltl all_finish { <> (done == REPLICAS && reader_done) }
