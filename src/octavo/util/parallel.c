// See parallel.h. Each worker sleeps until the caller counts its word `called` up; a meeting counts `met` up.

#if !defined _WIN32 && !defined __APPLE__
#define _GNU_SOURCE
#endif
#include "parallel.h"

#include <stdatomic.h>
#include <stdint.h>

// What systems call differently: a lock with a bell that wakes all who sleep at it, a clock, a thread.

#ifdef _WIN32  // declared by hand: windows.h has names that kernels use too
typedef struct { void *state; } Lock, Condition;
#define UNLOCKED {0}
#define SILENT {0}
__declspec(dllimport) void __stdcall AcquireSRWLockExclusive(Lock *);
__declspec(dllimport) void __stdcall ReleaseSRWLockExclusive(Lock *);
__declspec(dllimport) int __stdcall SleepConditionVariableSRW(Condition *, Lock *, unsigned long, unsigned long);
__declspec(dllimport) void __stdcall WakeAllConditionVariable(Condition *);
__declspec(dllimport) void *__stdcall CreateThread(void *, size_t, unsigned long(__stdcall *)(void *), void *,
                                                   unsigned long, unsigned long *);
__declspec(dllimport) int __stdcall CloseHandle(void *);
__declspec(dllimport) int __stdcall QueryPerformanceCounter(int64_t *);
__declspec(dllimport) int __stdcall QueryPerformanceFrequency(int64_t *);

static void lock(Lock *held) { AcquireSRWLockExclusive(held); }
static void unlock(Lock *held) { ReleaseSRWLockExclusive(held); }
static void sleep_at(Condition *bell, Lock *held) { SleepConditionVariableSRW(bell, held, 0xffffffff, 0); }
static void wake_all(Condition *bell) { WakeAllConditionVariable(bell); }

static int64_t nanoseconds(void) {
  int64_t now, second;
  QueryPerformanceCounter(&now);
  QueryPerformanceFrequency(&second);
  return now / second * 1000000000 + now % second * 1000000000 / second;
}
#else
#include <pthread.h>
#include <signal.h>
#include <time.h>

typedef pthread_mutex_t Lock;
typedef pthread_cond_t Condition;
#define UNLOCKED PTHREAD_MUTEX_INITIALIZER
#define SILENT PTHREAD_COND_INITIALIZER

static void lock(Lock *held) { pthread_mutex_lock(held); }
static void unlock(Lock *held) { pthread_mutex_unlock(held); }
static void sleep_at(Condition *bell, Lock *held) { pthread_cond_wait(bell, held); }
static void wake_all(Condition *bell) { pthread_cond_broadcast(bell); }

static int64_t nanoseconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000000000ll + now.tv_nsec;
}
#endif

static void pause_a_little(void) {
#if defined __x86_64__ || defined __i386__
  __builtin_ia32_pause();
#elif defined __aarch64__
  __asm__ volatile("isb");  // some ten nanoseconds, as x86's; `yield` takes no time at all
#endif
}

// Numbers that threads wait for, apart from each other in memory, so that who looks at one disturbs no other.
enum {
  LINE = 128,        // bytes, of two lines of the cache, which some processors fetch together
  MOST_THREADS = 256,
  STACK = 1 << 20,   // bytes: some systems give 128 kB
  LOOKING = 100000,  // nanoseconds of looking before sleep
};

typedef struct {
  _Alignas(LINE) atomic_uint word;
  atomic_uint sleeping;
  Lock lock;
  Condition bell;
} Counter;

static void begin_anew(Counter *c) {
  c->lock = (Lock)UNLOCKED, c->bell = (Condition)SILENT;
  atomic_store(&c->sleeping, 0);
}

// Waits until the word is no longer `old`: looks at it for a while, then sleeps.
static void await(Counter *c, unsigned old) {
  for (int64_t until = nanoseconds() + LOOKING; nanoseconds() < until;)
    for (int i = 0; i < 32; i++) {
      if (atomic_load_explicit(&c->word, memory_order_acquire) != old) return;
      pause_a_little();
    }
  lock(&c->lock);
  atomic_fetch_add(&c->sleeping, 1);  // before the last look: whoever changes the word then sees it
  while (atomic_load(&c->word) == old) sleep_at(&c->bell, &c->lock);
  atomic_fetch_sub(&c->sleeping, 1);
  unlock(&c->lock);
}

static void wake(Counter *c) {  // after the word was changed
  if (!atomic_load(&c->sleeping)) return;
  lock(&c->lock);
  wake_all(&c->bell);
  unlock(&c->lock);
}

static void count_up(Counter *c) {
  atomic_fetch_add(&c->word, 1);
  wake(c);
}

typedef struct {
  void (*work)(void *);
  void *given;
  _Alignas(LINE) atomic_ptrdiff_t handed_out;
  _Alignas(LINE) atomic_uint come;  // to the next meeting
  Counter met, done;                // `done`: threads that have done their work
} Team;

typedef struct {
  Counter called;
  int number;
  unsigned heard;  // of `called`, when the thread began
} Worker;

static struct {
  atomic_int taken;  // by one caller at a time
  int count;         // of workers that run
  int threads;       // of the team, the caller among them
  int ready;         // locks and bells, in this process
  Team team;
  Worker workers[MOST_THREADS - 1];
} pool;

// What this thread works at: with whom, which of them it is, and how many there are.
static _Thread_local Team *team;
static _Thread_local int number, threads;

int thread_number(void) { return number; }
int threads_together(void) { return threads; }

static void take_part(Team *at, int which, int of) {
  Team *const outer = team;
  const int number_before = number, threads_before = threads;
  team = at, number = which, threads = of;
  at->work(at->given);
  team = outer, number = number_before, threads = threads_before;
}

void share(ptrdiff_t n, ptrdiff_t *begin, ptrdiff_t *end) {
  *begin = n * number / threads;
  *end = n * (number + 1) / threads;
}

int hand_out(ptrdiff_t n, ptrdiff_t piece, ptrdiff_t *begin, ptrdiff_t *end) {
  const ptrdiff_t first = atomic_fetch_add_explicit(&team->handed_out, piece, memory_order_relaxed);
  *begin = first < n ? first : n;
  *end = n - *begin < piece ? n : *begin + piece;
  return *begin < n;
}

void meet(void) {
  if (threads == 1) return;
  const unsigned before = atomic_load(&team->met.word);
  if (atomic_fetch_add(&team->come, 1) + 1 < (unsigned)threads) {
    await(&team->met, before);
    return;
  }
  atomic_store(&team->come, 0);
  count_up(&team->met);
}

// The threads of an OpenMP that is there anyway, by its own functions; none in a forked process, which has not these.
static struct {
  void (*parallel)(void (*)(void *), void *, unsigned, unsigned);
  int (*number)(void), (*count)(void);
} lent;

static void remember_forks(void);

void borrow_threads(void *parallel, void *thread_number, void *count) {
  remember_forks();
  lent.parallel = parallel, lent.number = thread_number, lent.count = count;
}

static void serve(Worker *me) {
  for (unsigned heard = me->heard;; heard++) {
    await(&me->called, heard);
    take_part(&pool.team, me->number, pool.threads);
    count_up(&pool.team.done);
  }
}

#ifdef _WIN32
static unsigned long __stdcall run(void *worker) {
  serve(worker);
  return 0;
}
static int start(Worker *worker) {
  void *thread = CreateThread(0, STACK, run, worker, 0, 0);
  if (thread) CloseHandle(thread);
  return thread != 0;
}
static void remember_forks(void) {}
#else
static void *run(void *worker) {
  serve(worker);
  return 0;
}

static int start(Worker *worker) {  // signals are for the threads that were there before
  sigset_t all, before;
  pthread_attr_t how;
  pthread_t thread;
  sigfillset(&all);
  pthread_attr_init(&how);
  pthread_attr_setstacksize(&how, STACK);
  pthread_attr_setdetachstate(&how, PTHREAD_CREATE_DETACHED);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const int failed = pthread_create(&thread, &how, run, worker);
  pthread_sigmask(SIG_SETMASK, &before, 0);
  pthread_attr_destroy(&how);
  return !failed;
}

// A forked process has none of the threads, and locks as they were at that moment.
static void forget(void) {
  pool.count = pool.ready = 0, lent.parallel = 0;
  atomic_store(&pool.taken, 0);
}

static void remember_forks(void) {
  static atomic_int known;
  if (!atomic_exchange(&known, 1)) pthread_atfork(0, 0, forget);
}
#endif

static int grow(int wanted) {
  remember_forks();
  if (!pool.ready) {
    begin_anew(&pool.team.met), begin_anew(&pool.team.done);
    for (int i = 0; i < MOST_THREADS - 1; i++) begin_anew(&pool.workers[i].called);
    pool.ready = 1;
  }
  for (; pool.count < wanted - 1; pool.count++) {
    Worker *next = &pool.workers[pool.count];
    next->number = pool.count + 1, next->heard = atomic_load(&next->called.word);
    if (!start(next)) break;
  }
  return pool.count + 1 < wanted ? pool.count + 1 : wanted;
}

static void by_the_pool(int wanted, void (*work)(void *), void *given) {
  Team *const all = &pool.team;
  pool.threads = grow(wanted);
  all->work = work, all->given = given, all->handed_out = all->come = 0;
  const unsigned before = atomic_load(&all->done.word), others = (unsigned)pool.threads - 1;
  for (unsigned i = 0; i < others; i++) count_up(&pool.workers[i].called);
  take_part(all, 0, pool.threads);
  for (unsigned now; (now = atomic_load(&all->done.word)) - before < others;) await(&all->done, now);
}

static void borrowed(void *at) { take_part(at, lent.number(), lent.count()); }

void together(int wanted, void (*work)(void *), void *given) {
  int taken = 0;
  if (wanted > MOST_THREADS) wanted = MOST_THREADS;
  if (wanted > 1 && lent.parallel) {
    Team own = {.work = work, .given = given};
    begin_anew(&own.met);
    lent.parallel(borrowed, &own, (unsigned)wanted, 0);
  } else if (wanted > 1 && atomic_compare_exchange_strong(&pool.taken, &taken, 1)) {
    by_the_pool(wanted, work, given);
    atomic_store(&pool.taken, 0);
  } else {
    Team alone = {.work = work, .given = given};
    take_part(&alone, 0, 1);
  }
}
