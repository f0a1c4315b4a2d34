/* How a program is stopped (cc/run/program.cc: watch, lease, compute, add, remove, stop, end,
 * stop_all_programs, wait_until_idle) while its waits begin and it ends.
 *
 *   THREADS threads, each: up to WAITS waits of any kind; then the program ends and dies
 *   CANCELS=1: the step is cancelled at any time     INTERRUPTS=1: Ctrl-C at any time
 *   a waiter: wait_until_idle(), at any time
 *
 * A wait lasts until the program is stopped, or what it waits for is there at once. The
 * three kinds of waits: at a feed, which is registered first; in compute(); at a Wakeable,
 * which is added first and removed and destroyed after it.
 *
 * The model and the code:
 *   program_locked, stop_flag, watched, registered    Program::mutex_, stopped_, watched_,
 *                                                     feeds_
 *   computing                 stop_: a wait gives the mutex back and falls asleep in one step
 *   added, wakeable_locked, collective   wakeables_, and the mutex and the condition variable of
 *                             Replicas: replica_barrier.pml has its inside
 *   word, parked              WaitPoint::word_, and that the kernel holds the thread asleep
 *   running_locked, in_set, ending, idle_asleep    Running
 *   stops, stops_at_call, stops_seen    Running::stopped_until_ns and call_ns, and the
 *                             program's since_ns_: numbers of stops instead of times
 *   callback, is_cancelling, is_cancelled    tensorflow::CancellationManager: registering is
 *                             refused while it cancels; deregistering then waits until all
 *                             callbacks have returned
 * Each statement is one access of shared memory. The slices of wait_until_idle() are left
 * out: its notification alone must be enough.
 *
 * Ctrl-C comes while the main thread calls TensorFlow (main_thread_calls), and the program
 * begins in that call: before Ctrl-C or after it.
 *
 * Proven: no deadlock; each wait returns once the program is stopped, however the stop and
 * the beginning of the wait are interleaved; nothing calls a program or a Wakeable that has
 * died; a waiter for an idle IPU returns, and the feeds of the programs that have ended are
 * then free.
 *
 * Each of these macros plants one bug, which the verifier must find:
 *   PLANT_STOP_WITHOUT_LOCK       PLANT_FLAG_AFTER_WAKE      PLANT_STOP_SKIPS_FEEDS
 *   PLANT_STOP_SKIPS_WAKEABLES    PLANT_STOP_SKIPS_COMPUTE   PLANT_NO_LOOK_AFTER_PARKING
 *   PLANT_REFUSAL_IS_IGNORED      PLANT_NO_DEREGISTER        PLANT_DEREGISTER_WITH_LOCK
 *   PLANT_REMOVE_WITHOUT_LOCK     PLANT_IDLE_IGNORES_ENDING  PLANT_END_WITHOUT_NOTIFY
 *   PLANT_STOPS_ARE_IGNORED       PLANT_SEES_STOPS_OF_NOW    PLANT_STOP_ALL_WITHOUT_LOCK
 *   PLANT_ERASE_WITHOUT_LOCK      (the last four with INTERRUPTS=1 and CANCELS=0)
 */
#ifndef THREADS
#define THREADS 1
#endif
#ifndef WAITS
#define WAITS 2
#endif
#ifndef CANCELS
#define CANCELS 1
#endif
#ifndef INTERRUPTS
#define INTERRUPTS 0
#endif

#define FEED 0
#define COMPUTE 1
#define WAKEABLE 2

/* program.h */
bool program_locked;
bool stop_flag, watched, has_token;
byte stops_seen;
bool registered[THREADS], taken[THREADS];
bool added[THREADS], computing[THREADS];
/* wait.h, of the feed of each thread */
bool word[THREADS], parked[THREADS];
/* replicas.h, of the Wakeable of each thread */
bool wakeable_locked[THREADS], collective[THREADS], wakeable_alive[THREADS];
/* Running */
bool running_locked, in_set, idle_asleep;
byte ending, stops, stops_at_call;
/* CancellationManager */
bool callback, is_cancelling, is_cancelled;

/* For the assertions only. */
bool alive, erased, over;
byte threads_done, parties_done;

inline lock(mutex) { atomic { !mutex -> mutex = true } }
inline unlock(mutex) { mutex = false }

/* WaitPoint::notify(): the word, and FUTEX_WAKE. */
inline wake_feed(i) {
  if
  :: word[i] -> word[i] = false; parked[i] = false
  :: else
  fi
}

/* Replicas::wake() */
inline wake_wakeable(i) {
  assert(wakeable_alive[i]);
  lock(wakeable_locked[i]);
  collective[i] = false;
  assert(wakeable_alive[i]);
  unlock(wakeable_locked[i])
}

inline wake_all(i) {
  i = 0;
  do
  :: i == THREADS -> break
  :: else ->
#ifndef PLANT_STOP_SKIPS_FEEDS
     if
     :: registered[i] -> wake_feed(i)
     :: else
     fi;
#endif
#ifndef PLANT_STOP_SKIPS_WAKEABLES
     if
     :: added[i] -> wake_wakeable(i)
     :: else
     fi;
#endif
     i++
  od;
  i = 0;
#ifndef PLANT_STOP_SKIPS_COMPUTE
  d_step { computing[0] = false; computing[THREADS - 1] = false }
#endif
}

/* Program::stop() */
inline stop(i) {
  assert(alive);
#ifndef PLANT_STOP_WITHOUT_LOCK
  lock(program_locked);
#endif
#ifdef PLANT_FLAG_AFTER_WAKE
  wake_all(i);
  stop_flag = true;
#else
  stop_flag = true;
  wake_all(i);
#endif
  assert(alive);
#ifndef PLANT_STOP_WITHOUT_LOCK
  unlock(program_locked)
#endif
}

/* Program::watch(), without the program's lock. */
inline watch() {
  lock(program_locked);
  if
  :: watched -> unlock(program_locked)
  :: else ->
     watched = true;
     unlock(program_locked);
     lock(running_locked);
     in_set = true;
#ifndef PLANT_STOPS_ARE_IGNORED
     missed = (stops != stops_seen);
#endif
     unlock(running_locked);
     if
     :: missed -> missed = false; stop(i)
     :: else
     fi;
     /* RegisterCallback() */
     atomic {
       if
       :: !is_cancelling && !is_cancelled -> callback = true; has_token = true
       :: else
       fi
     };
     if
     :: has_token
     :: else ->
#ifndef PLANT_REFUSAL_IS_IGNORED
        stop(i)
#else
        skip
#endif
     fi
  fi
}

/* Program::leased() or lease(), then Feed::pop() */
inline wait_at_feed() {
  lock(program_locked);
  if
  :: registered[me] -> unlock(program_locked)
  :: else ->
     taken[me] = true;
     registered[me] = true;
     unlock(program_locked);
     watch()
  fi;
  if
  :: there
  :: else ->
     do
     :: stop_flag -> break
     :: else ->
        word[me] = true; /* [7] */
#ifndef PLANT_NO_LOOK_AFTER_PARKING
        if
        :: stop_flag -> word[me] = false; break
        :: else
        fi;
#endif
        atomic { parked[me] = word[me] };
        (!parked[me])
     od
  fi
}

/* Program::compute() */
inline compute() {
  watch();
  lock(program_locked);
  if
  :: there
  :: else ->
     do
     :: stop_flag -> break
     :: else ->
        atomic { computing[me] = true; program_locked = false };
        atomic { (!computing[me] && !program_locked) -> program_locked = true }
     od
  fi;
  unlock(program_locked)
}

/* Program::add(), a collective, Program::remove(), ~Replicas() */
inline wait_at_wakeable() {
  wakeable_alive[me] = true;
  watch();
  lock(program_locked);
  added[me] = true;
  unlock(program_locked);
  if
  :: there
  :: else ->
     lock(wakeable_locked[me]);
     do
     :: stop_flag -> break
     :: else ->
        atomic { collective[me] = true; wakeable_locked[me] = false };
        atomic { (!collective[me] && !wakeable_locked[me]) -> wakeable_locked[me] = true }
     od;
     unlock(wakeable_locked[me])
  fi;
#ifndef PLANT_REMOVE_WITHOUT_LOCK
  lock(program_locked);
#endif
  added[me] = false;
#ifndef PLANT_REMOVE_WITHOUT_LOCK
  unlock(program_locked);
#endif
  wakeable_alive[me] = false
}

proctype worker(byte me) {
  byte waits = WAITS;
  byte i;
  bool there, missed;
  do
  :: waits == 0 || stop_flag -> break
  :: else ->
     waits--;
     if
     :: there = true
     :: there = false
     fi;
     if
     :: wait_at_feed()
     :: compute()
     :: wait_at_wakeable()
     fi
  od;
  threads_done++
}

/* Program::end(), then ~Program() */
inline end() {
  if
  :: !watched
  :: else ->
     watched = false;
#ifndef PLANT_ERASE_WITHOUT_LOCK
     lock(running_locked);
#endif
     d_step { in_set = false; erased = true };
     ending++;
#ifndef PLANT_ERASE_WITHOUT_LOCK
     unlock(running_locked);
#endif
#ifdef PLANT_DEREGISTER_WITH_LOCK
     lock(program_locked);
#endif
#ifndef PLANT_NO_DEREGISTER
     if
     :: has_token ->
        /* DeregisterCallback() */
        if
        :: atomic { !is_cancelling -> callback = false }
        :: is_cancelling -> (is_cancelled)
        fi
     :: else
     fi;
#endif
#ifndef PLANT_DEREGISTER_WITH_LOCK
     lock(program_locked);
#endif
     d_step { registered[0] = false; registered[THREADS - 1] = false };
     unlock(program_locked);
     d_step { taken[0] = false; taken[THREADS - 1] = false }; /* give_back() */
     lock(running_locked);
     ending--;
#ifndef PLANT_END_WITHOUT_NOTIFY
     idle_asleep = false;
#endif
     unlock(running_locked)
  fi;
  alive = false
}

proctype program() {
  byte number;
  lock(running_locked); /* beginning_ns() */
#ifdef PLANT_SEES_STOPS_OF_NOW
  stops_seen = stops;
#else
  stops_seen = stops_at_call;
#endif
  unlock(running_locked);
  alive = true;
  atomic {
    do
    :: number == THREADS -> break
    :: else -> run worker(number); number++
    od
  };
  (threads_done == THREADS);
  end();
  over = true
}

#if CANCELS
/* CancellationManager::StartCancel() */
proctype canceller() {
  byte i;
  bool calls;
  atomic { is_cancelling = true; calls = callback; callback = false };
  if
  :: calls -> stop(i)
  :: else
  fi;
  atomic { is_cancelling = false; is_cancelled = true };
  parties_done++
}
#endif

#if INTERRUPTS
/* stop_all_programs() */
proctype interrupt() {
  byte i;
#ifndef PLANT_STOP_ALL_WITHOUT_LOCK
  lock(running_locked);
#endif
  stops++;
  if
  :: in_set -> stop(i)
  :: else
  fi;
#ifndef PLANT_STOP_ALL_WITHOUT_LOCK
  unlock(running_locked);
#endif
  parties_done++
}
#endif

/* wait_until_idle() */
#ifdef PLANT_IDLE_IGNORES_ENDING
#define BUSY in_set
#else
#define BUSY (in_set || ending > 0)
#endif
proctype waiter() {
  lock(running_locked);
  do
  :: !BUSY -> break
  :: else ->
     atomic { idle_asleep = true; running_locked = false };
     atomic { (!idle_asleep && !running_locked) -> running_locked = true }
  od;
  assert(!erased || (!taken[0] && !taken[THREADS - 1]));
  unlock(running_locked);
  parties_done++
}

#define ALL_DONE (over && parties_done == 1 + CANCELS + INTERRUPTS)

init {
  atomic {
    run program();
    run waiter();
#if CANCELS
    run canceller();
#endif
#if INTERRUPTS
    run interrupt();
#endif
  };
  (ALL_DONE);
  assert(!in_set && ending == 0 && !program_locked && !running_locked)
}

ltl all_finish { <> (ALL_DONE) }
