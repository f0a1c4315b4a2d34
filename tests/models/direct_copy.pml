/* The offer of a ring's reader (cc/pipeline/direct_copy.h, with cc/pipeline/pipeline.cc: send,
 * receive, Offer) to take its next element without the ring.
 *
 *   a writer, a reader, ELEMENTS elements, a ring of CAPACITY
 *   STOPS=1: the program is stopped at any time; the reader then gives up its wait
 *
 * The model and the code:
 *   state, where          DirectCopy::state_ (0: kNone, n + 1: an offer for n) and where_
 *   ring, first, count    the feed, whose proof is feed.pml: a push, a pop and the look of a
 *                         wait are one step each
 *   memory, owner         what the reader's tensors hold, and for which element they are
 *                         there: NONE outside of receive()
 * Each statement is one access.
 *
 * Proven: no deadlock; each element once and in order; the writer writes only into tensors
 * that are there for its element; the reader returns from each call, and the writer has no
 * access to the tensors then.
 *
 * Each of these macros plants one bug, which the verifier must find:
 *   PLANT_ANY_OFFER         claim() without the comparison of the numbers
 *   PLANT_MARK_BEFORE_COPY  send_direct() pushes the mark before it copies
 *   PLANT_OFFER_BEFORE_WHERE  offer() stores state_ before where_
 *   PLANT_NO_RETRACT        receive() gives up without retract() (STOPS=1)
 *   PLANT_CLAIM_IS_NOT_AWAITED  a retract() that fails is ignored (STOPS=1)
 *   PLANT_CLAIM_IN_TWO_STEPS  claim() stores kNone after its look, without an exchange (STOPS=1)
 */
#ifndef ELEMENTS
#define ELEMENTS 4
#endif
#ifndef CAPACITY
#define CAPACITY 2
#endif
#ifndef STOPS
#define STOPS 0
#endif

#define NONE 99
#define MARK 50

byte state, where = NONE;
byte ring[CAPACITY], first, count;
bool stop_flag;
byte memory = NONE, owner = NONE;
byte given, taken;

inline push(value) {
  d_step { ring[(first + count) % CAPACITY] = value; count++ }
}

inline copy() {
  assert(owner == number && where == number);
  memory = number;
  assert(owner == number)
}

active proctype Writer() {
  byte number;
  bool claimed;
  do
  :: given < ELEMENTS ->
     number = given;
     claimed = false;
     if
#ifdef PLANT_ANY_OFFER
     :: state != 0 -> atomic { if :: state != 0 -> state = 0; claimed = true :: else fi }
#elif defined(PLANT_CLAIM_IN_TWO_STEPS)
     :: state == number + 1 -> state = 0; claimed = true
#else
     :: state == number + 1 ->
        atomic { if :: state == number + 1 -> state = 0; claimed = true :: else fi }
#endif
     :: else
     fi;
     if
     :: claimed ->
        assert(count == 0);  /* there is room for the mark */
#ifdef PLANT_MARK_BEFORE_COPY
        push(MARK + number);
        copy();
#else
        copy();
        push(MARK + number);
#endif
     :: else ->
        if
        :: count < CAPACITY -> push(number)
        :: stop_flag -> break
        fi
     fi;
     given++
  :: else -> break
  od
}

inline pop() {
  d_step { value = ring[first]; first = (first + 1) % CAPACITY; count--; popped = true }
}

active proctype Reader() {
  byte number, value;
  bool popped, offered;
  do
  :: taken < ELEMENTS ->
     number = taken;
     popped = false;
     offered = false;
     owner = number;
     memory = NONE;
     if
     :: count > 0 -> pop()
     :: else ->
#ifdef PLANT_OFFER_BEFORE_WHERE
        state = number + 1;
        where = number;
#else
        where = number;
        state = number + 1;
#endif
        offered = true;
        if
        :: count > 0 -> pop()
        :: stop_flag ->
#ifndef PLANT_NO_RETRACT
           if
           :: atomic { state == number + 1 -> state = 0 }
           :: else ->
#ifndef PLANT_CLAIM_IS_NOT_AWAITED
              count > 0 -> pop()
#else
              skip
#endif
           fi
#endif
        fi
     fi;
     if
     :: popped ->
        if
        :: value >= MARK -> assert(value == MARK + number)
        :: else -> assert(value == number); memory = value
        fi;
        assert(memory == number)
     :: else
     fi;
     owner = NONE;
     if
     :: popped -> taken++
     :: else -> break  /* the program is stopped */
     fi
  :: else -> break
  od;
  assert(stop_flag || taken == ELEMENTS)
}

#if STOPS
active proctype Stopper() {
  stop_flag = true
}
#endif
