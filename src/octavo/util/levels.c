// How well a library of kernels suits the processor that it runs on. This file is compiled for every processor of its
// kind, so that it can be asked anywhere; the others with the instructions of LEVEL, which the build gives.

#include <stdint.h>

enum { BASELINE = 1, V2, V3, V4, V4_BF16, V4_AMX };
#ifndef LEVEL
#define LEVEL BASELINE  // compiled on the spot, for the processor that is there
#endif

#if defined __x86_64__
#include <cpuid.h>

static int has(unsigned found, unsigned wanted) { return (found & wanted) == wanted; }
#define BIT(n) (1u << (n))

// The levels of the x86-64 psABI, and the two above them that kernels have instructions of. `kept`: registers whose
// content the system keeps for each process. Instructions alone do not do.
static int level(void) {
  unsigned a, b, c, d, one, seven_b = 0, seven_c = 0, seven_d = 0, more = 0, extended = 0, kept = 0;
  if (!__get_cpuid(1, &a, &b, &one, &d)) return 0;
  if (__get_cpuid(0x80000001, &a, &b, &c, &d)) extended = c;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d)) {
    seven_b = b, seven_c = c, seven_d = d;
    if (a >= 1 && __get_cpuid_count(7, 1, &a, &b, &c, &d)) more = a;
  }
  if (one & BIT(27)) __asm__ volatile("xgetbv" : "=a"(kept), "=d"(d) : "c"(0));
  if (!has(one, BIT(0) | BIT(9) | BIT(13) | BIT(19) | BIT(20) | BIT(23)) || !(extended & BIT(0))) return BASELINE;
  if (!has(one, BIT(12) | BIT(22) | BIT(28) | BIT(29)) || !has(seven_b, BIT(3) | BIT(5) | BIT(8)) ||
      !(extended & BIT(5)) || !has(kept, 0x6))
    return V2;
  if (!has(seven_b, BIT(16) | BIT(17) | BIT(28) | BIT(30) | BIT(31)) || !has(kept, 0xe6)) return V3;
  if (!has(more, BIT(5)) || !has(seven_c, BIT(11))) return V4;
  return has(seven_d, BIT(22) | BIT(24)) && has(kept, 0x60000) ? V4_AMX : V4_BF16;
}
#else
static int level(void) { return BASELINE; }
#endif

// The higher, the faster; 0 where the processor lacks what is needed.
int score(void) { return level() >= LEVEL ? LEVEL : 0; }
