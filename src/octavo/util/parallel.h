// Threads that work together: torch's own where Python lends them (`borrow_threads`), else a small pool. Torch's look for
// work for milliseconds after each of its products, and beside them the pool's have half a core. A second OpenMP ends the
// process on some systems. The pool's threads sleep while there is nothing to do.
//
// A result must not depend on how many threads there are: where the pool is at work for another caller, or the system
// gives no more threads, there are fewer than asked for.

#pragma once
#include <stddef.h>

#if defined __GNUC__ && !defined _WIN32
#define INTERNAL __attribute__((visibility("hidden")))
#else
#define INTERNAL
#endif

// Has `work` done by the caller and up to threads − 1 others at once; returns when all have done it.
INTERNAL void together(int threads, void (*work)(void *given), void *given);

// Within such work: which of its threads this one is, the caller being 0, and how many there are.
INTERNAL int thread_number(void);
INTERNAL int threads_together(void);

// Waits until all threads of the work have come here. What they wrote before is there for all.
INTERNAL void meet(void);

// This thread's part of n things: always the same, for what is done with them again after a meeting.
INTERNAL void share(ptrdiff_t n, ptrdiff_t *begin, ptrdiff_t *end);

// The next `piece` of n things, which no other thread has; 0 where none are left. Once in a work, for the n things are
// not handed out again.
INTERNAL int hand_out(ptrdiff_t n, ptrdiff_t piece, ptrdiff_t *begin, ptrdiff_t *end);
