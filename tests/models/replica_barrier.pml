/* The collectives of replicas (cc/core/replica_barrier.h, and what cc/replicas/replicas.cc keeps with it).
 *
 *   MEMBERS members, each: RUNS runs of up to COLLECTIVES collectives, then leave()
 *   STOPS=1: a third party stops the program at any time
 *
 * How many collectives a member wants in a run is any number, and a member may leave for
 * good after any run: the verifier tries all of them, in every interleaving. A member
 * that is told that another one has ended goes on with its next run.
 *
 * The model and the code:
 *   locked, sleeping            mutex_ and changed_: a wait gives the mutex back and
 *                               falls asleep in one step; notify_all() is one step. A
 *                               wait that spins returns when the count of changes is
 *                               another, and compares it, with the mutex, before it
 *                               sleeps: no change is lost between, as in one step
 *   phase, runs, is_here, here, working, leaving    the members of the same names
 *   arrive_and_wait(), leave_run(), wake()    arrive_and_wait() with gather(), leave() and
 *                               leave_for_good(), wake()
 *   inside, bringing            Replicas::requests_: what a member has brought, which others
 *                               read until the collective is over
 *   outcome                     Replicas::outcome_ and arrived_ns_: written by begin(), read
 *                               after arrive_and_wait() has returned, without the lock
 * Each statement is one access. A wait that reports (StallWatch) is one that ends without
 * a notification: REPORTS of them per member.
 *
 * Proven: no deadlock; all members are in a collective while its parts are computed; each
 * reads the outcome of its own collective; without a stop each member has passed as often as the
 * one that wanted least and is told that a member has ended exactly if it wanted more,
 * whatever the interleaving; with a stop each collective was passed by all or by none.
 *
 * Each of these macros plants one bug, which the verifier must find:
 *   PLANT_LEAVE_WITHOUT_NOTIFY    PLANT_UNLOCKED_LEAVE       PLANT_BEGIN_WITHOUT_NOTIFY
 *   PLANT_NO_WAIT_FOR_LEAVING     PLANT_LAST_LEAVES_SILENTLY PLANT_DONE_WITHOUT_NOTIFY
 *   PLANT_STOPPED_WHILE_WORKING   PLANT_NO_RETRACT           PLANT_NOT_LEVEL
 *   PLANT_BEHIND_GETS_NO_ERROR      PLANT_LEAVES_AFTER_WORK
 *   PLANT_WAKE_WITHOUT_LOCK       PLANT_WAKE_BEFORE_STOP     (both with STOPS=1)
 */
#ifndef MEMBERS
#define MEMBERS 3
#endif
#ifndef RUNS
#define RUNS 1
#endif
#ifndef COLLECTIVES
#define COLLECTIVES 2
#endif
#ifndef STOPS
#define STOPS 0
#endif
#ifndef REPORTS
#define REPORTS 0
#endif

#define GATHERING 0
#define WORKING 1
#define LEAVING 2

#define MET 0
#define ENDED 1
#define STOPPED 2

#define FOR_GOOD 9
#define AT(member, exec) ((member) * RUNS + (exec))

/* replica_barrier.h */
bool locked;
bool sleeping[MEMBERS];
byte phase = GATHERING;
byte runs[MEMBERS];
bool is_here[MEMBERS];
byte here, working, leaving;
/* program.h */
bool stop_flag;
/* replicas.cc */
bool inside[MEMBERS];
byte bringing[MEMBERS];
byte outcome;

/* What each member has wanted and done, for the assertions only. */
byte wanted[MEMBERS * RUNS], met[MEMBERS * RUNS];
bool told[MEMBERS * RUNS];
byte begun, done;

inline lock() { atomic { !locked -> locked = true } }
inline unlock() { locked = false }
inline cv_wait() {
  atomic { sleeping[me] = true; locked = false };
  atomic { (!sleeping[me] && !locked) -> locked = true }
}
inline notify_all() {
  d_step { sleeping[0] = false; sleeping[1] = false; sleeping[MEMBERS - 1] = false }
}

#define IS_BEHIND \
  (runs[0] > runs[me] || runs[1] > runs[me] || runs[MEMBERS - 1] > runs[me])
#ifdef PLANT_NOT_LEVEL
#define IS_LEVEL true
#else
#define IS_LEVEL (runs[0] == runs[1] && runs[0] == runs[MEMBERS - 1])
#endif

#define ALL_INSIDE (inside[0] && inside[1] && inside[MEMBERS - 1])
#define SAME_COLLECTIVE \
  (bringing[0] == bringing[1] && bringing[0] == bringing[MEMBERS - 1])

inline retract() {
  is_here[me] = false;
#ifndef PLANT_NO_RETRACT
  here--
#endif
}

/* ReplicaBarrier::arrive_and_wait(): the result is in `result`. */
inline arrive_and_wait() {
  d_step { bringing[me] = 8 * exec + met[AT(me, exec)]; inside[me] = true };
  lock();
#ifndef PLANT_NO_WAIT_FOR_LEAVING
  do
  :: phase == GATHERING -> break
  :: else ->
     if
     :: stop_flag -> result = STOPPED; goto out
     :: else -> cv_wait()
     fi
  od;
#endif
  is_here[me] = true;
  here++;
  do
  :: phase != GATHERING -> break
  :: else ->
     if
#ifndef PLANT_BEHIND_GETS_NO_ERROR
     :: IS_BEHIND -> retract(); result = ENDED; goto out
#endif
     :: else ->
        if
        :: here == MEMBERS && IS_LEVEL ->
           working = MEMBERS;
           leaving = MEMBERS;
           /* begin(), with the lock */
           assert(ALL_INSIDE && SAME_COLLECTIVE);
           d_step { begun++; outcome = begun };
           if
           :: phase = WORKING
           :: phase = LEAVING
           fi;
#ifndef PLANT_BEGIN_WITHOUT_NOTIFY
           notify_all();
#endif
           break
        :: else ->
           if
           :: stop_flag -> retract(); result = STOPPED; goto out
           :: else ->
              if
              :: reports > 0 -> reports--; unlock(); lock()
              :: cv_wait()
              fi
           fi
        fi
     fi
  od;
  if
  :: phase == WORKING ->
     unlock();
     assert(ALL_INSIDE && SAME_COLLECTIVE); /* work() reads what all have brought */
     assert(ALL_INSIDE && SAME_COLLECTIVE);
     lock();
     working--;
     if
     :: working == 0 ->
        phase = LEAVING;
#ifndef PLANT_DONE_WITHOUT_NOTIFY
        notify_all()
#endif
     :: else
     fi;
#ifndef PLANT_LEAVES_AFTER_WORK
     do
     :: phase == LEAVING -> break
#ifdef PLANT_STOPPED_WHILE_WORKING
     :: phase != LEAVING && stop_flag -> break
#endif
     :: else -> cv_wait()
     od
#endif
  :: else
  fi;
  is_here[me] = false;
  leaving--;
  if
  :: leaving == 0 ->
     here = 0;
     phase = GATHERING;
#ifndef PLANT_LAST_LEAVES_SILENTLY
     notify_all()
#endif
  :: else
  fi;
  result = MET;
out:
  unlock();
  inside[me] = false
}

inline leave_run(good) {
#ifndef PLANT_UNLOCKED_LEAVE
  lock();
#endif
  runs[me] = (good -> FOR_GOOD : runs[me] + 1);
#ifndef PLANT_LEAVE_WITHOUT_NOTIFY
  notify_all();
#endif
#ifndef PLANT_UNLOCKED_LEAVE
  unlock()
#endif
}

proctype member(byte me) {
  byte exec, result, own;
  byte reports = REPORTS;
  bool last;

  do
  :: exec == RUNS -> break
  :: else ->
     select (own : 0 .. COLLECTIVES);
     wanted[AT(me, exec)] = own;
     result = MET;
     do
     :: met[AT(me, exec)] == wanted[AT(me, exec)] -> break
     :: else ->
        arrive_and_wait();
        if
        :: result == MET ->
           assert(outcome == begun); /* the next begins when all have read it */
           d_step { met[AT(me, exec)] = met[AT(me, exec)] + 1 }
        :: result == ENDED -> told[AT(me, exec)] = true; break
        :: result == STOPPED -> goto over /* an error: it neither leaves nor comes */
        fi
     od;
     if
     :: last = (exec == RUNS - 1)
     :: last = true /* for good, after any run */
     fi;
     leave_run(last);
     if
     :: last -> break
     :: else -> exec++
     fi
  od;
over:
  done++
}

#if STOPS
/* Program::stop() and Replicas::wake() */
inline wake() {
#ifndef PLANT_WAKE_WITHOUT_LOCK
  lock();
#endif
  notify_all();
#ifndef PLANT_WAKE_WITHOUT_LOCK
  unlock()
#endif
}
proctype stopper() {
#ifdef PLANT_WAKE_BEFORE_STOP
  wake();
  stop_flag = true
#else
  stop_flag = true;
  wake()
#endif
}
#endif

#define LEAST(exec)                                                             \
  (wanted[AT(0, exec)] < wanted[AT(1, exec)] &&                                  \
           wanted[AT(0, exec)] < wanted[AT(MEMBERS - 1, exec)]                   \
       -> wanted[AT(0, exec)]                                                   \
       : (wanted[AT(1, exec)] < wanted[AT(MEMBERS - 1, exec)]                    \
              -> wanted[AT(1, exec)]                                            \
              : wanted[AT(MEMBERS - 1, exec)]))

init {
  byte exec, who, least;
  atomic {
    who = 0;
    do
    :: who == MEMBERS -> break
    :: else -> run member(who); who++
    od;
#if STOPS
    run stopper();
#endif
  };
  (done == MEMBERS);
  d_step {
    exec = 0;
    do
    :: exec == RUNS -> break
    :: else ->
       least = LEAST(exec);
       who = 0;
       do
       :: who == MEMBERS -> break
       :: else ->
          assert(met[AT(who, exec)] == met[AT(0, exec)]);
#if !STOPS
          assert(met[AT(who, exec)] == least);
          assert(told[AT(who, exec)] == (wanted[AT(who, exec)] > least));
#endif
          who++
       od;
       exec++
    od
  }
}

ltl all_members_finish { <> (done == MEMBERS) }
