// Context mixing: what comes next, from many contexts at once, decided bit by bit. The twin is in slow_mixing.py.
//
// A text is a sequence of units of 8 bits. Each bit is predicted by what followed each of some contexts: the last units,
// the word and the words before it, how long ago it stood last, what it did in this part of the text, units further back,
// what followed such units or such a part of a word lately, what stands between words and how these begin, the last
// bracket or quotation mark, what stands before an open bracket, the line's column, its first word, that of the line
// above and of the last one with less indent, what stands above and beside in the line above, the longest match, and
// where one that was lost goes on. Of each context a line of the processor's cache keeps a short history of every bit
// of half a unit; what such histories came to is counted, and is an input twice where all bits of the history agreed.
// All predictions, and a network's where one is heard, are mixed in the logistic domain by several sets of weights,
// each chosen by a small context, and their mixtures by a few more, whose mean is corrected by what it came to in its
// context (secondary estimation). Weights and counts learn from each bit after it was predicted.
//
// Sources: Mahoney 2005 (PAQ6: bit histories, mixing by context, secondary estimation), Mahoney 2013 (the ZPAQ
// specification), Veness et al. 2020 (gated linear networks, which such mixers are). No code of these is here.

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "../util/parallel.h"

enum {
    ORDERS = 8,       // the first contexts: of the last 0 to 6 and of 8 units
    FOUR = 4, SPELT = 8,  // that of the last four, that of the word
    CONTEXTS = 50,
    MATCHES = 2,
    DIRECT = 4,       // contexts whose bits are counted one by one: the last 1 to 4 units
    SIDES = CONTEXTS, // of the inputs: two of each match, one of each direct count, a constant
    CONSTANT = SIDES + 2 * MATCHES + DIRECT,
    AGREED = CONSTANT + 1,  // the contexts again, where the bits of the history agreed
    HEARD = AGREED + CONTEXTS,  // two of the network
    LANES = 16,
    VECTORS = 7,
    INPUTS = VECTORS * LANES,
    COUNTED = (CONTEXTS + LANES - 1) / LANES * LANES,
    SETS = 11,
    SETS_PADDED = 16,
    SHARED = 2048,    // rows of a set that are chosen by more than there are rows
    ALL_ROWS = 256 + 256 + 2048 + 144 + 257 * 8 + 256 + 256 + 256 + 3 * SHARED,
    FINALS = 3,       // sets that weigh the mixtures
    STEPS = 32,       // of secondary estimation, half a logit each
    ESTIMATES = 3,
    LONGEST = 64,     // of a match
    STRAYED = 16,     // units that differ before a trail is lost
    NESTED = 32,      // brackets in brackets, and none
    INDENTS = 32,     // that are told apart
    LENGTHS = 24,     // kinds of lengths
    WINDOW = 256,     // units before a position that its prediction depends on
    FORGETS = 1000,   // bits after which a count of histories forgets
    DIRECT_FORGETS = 250,
    WAYS = 4,         // contexts of a line
    STRETCHED = 4096,
    ONES = (1 << 22) - 1,
    HALF = 1 << 31,
    CODE = 16,        // bits of the longest code
    FOLLOWS = 1024,   // words that are told apart by what followed them
    KEPT = 1 << 16,   // words, parts of words and pairs of units of which is kept where they stood or what followed
    NEAR = 10,        // binary logarithm of the units of a part of the text
};
static const int FIRST_ROW[SETS] = {0, 256, 512, 2560, 2704, 4760, 5016, 5272, 5528, 7576, 9624};  // of each set
static const int MATCH_LEAST[MATCHES] = {12, 5};
static const float LINES_PER_UNIT = 12;
static const int64_t MOST_LINES = 1 << 22;
static const float RATE = 0.002f, FIRST_RATE = 0.02f, RATE_FALLS = 32768, FINAL_RATE = 0.002f, CORRECTED = 0.02f;
static const float CERTAINTY = 3, FIRST_WEIGHT = 0.08f, FIRST_HEARD = 0.2f, BIAS = 0.3f, LARGEST = 12;
static const float LEAST = 1.0f / 65536, MOST_HEARD = 10;

typedef float Vector __attribute__((vector_size(4 * LANES)));
typedef float Eight __attribute__((vector_size(32)));
typedef float Four __attribute__((vector_size(16)));
typedef uint32_t Count;  // a probability of 22 bits, and how often it was corrected
typedef struct { Count of[16]; } Direct;  // of each bit of half a unit; less HALF, so that zeros are even chances
typedef struct { uint8_t check[WAYS], history[WAYS][15]; } Line;
typedef struct { uint32_t word; int32_t end; } Seen;  // a whole word, and where it ended last

// Where a line before goes on beside this one, signs beside signs; −1: nowhere. And how many units agreed, since one did
// not.
typedef struct { int64_t at; int same; } Beside;
typedef struct { uint32_t word; uint8_t unit, commas; } Bracket;  // an open one: the word before it, commas since

// Where a text stands: what the contexts of its next unit are made of.
typedef struct {
    const uint8_t *text;
    int64_t begin, end;      // what is known of it
    uint64_t last, earlier;  // units, the newest lowest
    uint32_t word, before[3], gap;  // hashes: of the word that stands here, of those before it, of what follows the last
    uint32_t opening;        // of the line's first word
    uint32_t shape, begins;  // the last units that are no letters, and those that words began with
    uint32_t kinds;          // of the last units
    int64_t line, above;     // where this line and the one before it begin; −1: nowhere
    uint32_t *follows;       // the word that followed each word last
    int column, indent, first, letters;
    int length, mark;        // units of the line before; the last bracket or quotation mark, 0 after the second of two
    Bracket brackets[NESTED];  // that are open, from the second on
    int depth;               // the last of them
    uint32_t headings[INDENTS];  // the first word of the last line with each indent; 0 after a line with less
    uint32_t heading, parent;  // the first word of the line before, and of the last line with less indent than this one
    Beside beside, like;     // in the line above; in the last one with the same first field, of what was read alone
    int in_fields;           // whether the first field of the line is over
    int64_t trail;           // where the text goes on that this one follows; 0: nowhere
    int strayed, agreed;     // units there that differed; those that agreed since
    int second;              // whether the next unit ends a symbol of two
} Place;

// How the predictions are weighed.
typedef struct { float sets[ALL_ROWS][INPUTS], final[FINALS][256][SETS_PADDED]; } Weights;

// What is known of a text, in one piece of memory with no address in it. Behind it stand direct counts, lines, the places
// of matches, and the text that was read.
typedef struct {
    uint16_t estimated[ESTIMATES][65536][STEPS];  // first, so that each of its lines is one of the processor's cache
    int64_t capacity, room, length, decided, lines;  // the tables are of a size for `capacity` units; the text has `room`
    int32_t direct_bits, head_bits;
    uint8_t kind[256], fold[256];     // of a unit: what kind of character it is, and which one it is in words
    uint8_t next[2][256];             // of a history: that after a 0 and after a 1
    uint8_t bits[256];                // of how many bits it is
    float speaks[256], agree[256];    // 1 where there are any, and where these agree; or 0
    float stretched[STRETCHED];
    Count by_history[CONTEXTS][256], matched[MATCHES][LENGTHS];
    uint32_t follows[FOLLOWS];
    uint32_t pairs[KEPT];             // the last units that followed each two units
    uint16_t parts[KEPT];             // and each part of a word, or of what stands between words
    Seen words[KEPT];
    int32_t like[KEPT];               // where a line with such a first field went on last
    Place place;                      // where the text ends
} Model;

enum { FIRST_OF_TWO = 0, LETTER = 1, CAPITAL = 2, DIGIT = 3, SPACE = 4, LINE = 5, QUOTE = 9 };  // kinds that codes.py gives

static int64_t padded(int64_t bytes) { return (bytes + 63) / 64 * 64; }
static int bits_for(int64_t n, int least, int most) {
    int bits = least;
    while (bits < most && (1ll << bits) < n) bits++;
    return bits;
}
static inline Direct *direct(const Model *m, int order) {  // order 1 to DIRECT
    return (Direct *)((char *)m + padded(sizeof *m)) + ((int64_t)(order - 1) << m->direct_bits);
}
static inline Line *lines(const Model *m) { return (Line *)direct(m, DIRECT + 1); }
static inline int32_t *heads(const Model *m, int which) {
    return (int32_t *)(lines(m) + m->lines) + ((int64_t)which << m->head_bits);
}
static inline uint8_t *text_of(const Model *m) { return (uint8_t *)heads(m, MATCHES); }

static void size(Model *m, int64_t capacity) {
    m->capacity = m->room = capacity;
    m->direct_bits = bits_for(capacity / 4, 10, 18);
    m->lines = 4096 + (int64_t)(LINES_PER_UNIT * capacity);
    if (m->lines > MOST_LINES) m->lines = MOST_LINES;
    m->head_bits = bits_for(capacity, 12, 26);
}

// Bytes of a model that may read so many units.
int64_t mixing_bytes(int64_t capacity) {
    Model *m = malloc(sizeof *m);
    if (!m) return -1;
    size(m, capacity);
    const int64_t bytes = (char *)text_of(m) - (char *)m + padded(capacity);
    free(m);
    return bytes;
}

// Numbers that weigh.
int64_t mixing_weights(void) { return sizeof(Weights) / sizeof(float); }

// 1 / (1 + e^−x), |x| ≤ LARGEST, to some 1e-6: e^−x = 2^whole · 2^rest, the latter by its series.
static inline float squash(float x) {
    const float t = -1.44269504f * x, whole = floorf(t + 0.5f), r = (t - whole) * 0.69314718f;
    const float power = 1 + r * (1 + r * (0.5f + r * (0.166666667f + r * (0.0416666667f + r * (0.00833333333f + r * 0.00138888889f)))));
    union { int32_t i; float f; } two = {((int32_t)whole + 127) << 23};
    return 1 / (1 + two.f * power);
}
static inline float clipped(float x, float most) { return x > most ? most : x < -most ? -most : x; }
static inline uint64_t hashed(uint64_t a, uint64_t b) {
    uint64_t h = (a + 0x9E3779B97F4A7C15u) * 0xD6E8FEB86659FD93u;
    h = ((h ^ h >> 32) + b) * 0xD6E8FEB86659FD93u;
    return h ^ h >> 29;
}
static inline float total(Vector v) {
    union { Vector v; Eight half[2]; } all = {v};
    union { Eight v; Four half[2]; } some = {all.half[0] + all.half[1]};
    const Four few = some.half[0] + some.half[1];
    return (few[0] + few[2]) + (few[1] + few[3]);
}

static inline float probability(Count count) { return (float)(count >> 10) * (1.0f / ONES); }
static inline float stretch(const Model *m, Count count) { return m->stretched[count >> 20]; }
static Count new_count(float p) { return (Count)(p * ONES) << 10; }
// After one more bit.
static inline Count counted(Count count, int bit, Count forgets) {
    const Count p = count >> 10, times = count & 1023;
    const int32_t wrong = (bit ? ONES : 0) - (int32_t)p;
    const Count more = p + (Count)(int32_t)((float)wrong / ((float)times + 1.5f));
    return more << 10 | (times < forgets ? times + 1 : times);
}

// Histories are pairs of counts, and which bit came last where both came. A bit that comes makes the other's count
// smaller where that was more than 2: what came lately tells more.
static const int MOST_COUNTED[] = {41, 24, 12, 7, 5, 5};
static int lessened(int n) { return n <= 2 ? n : n == 3 ? 2 : n <= 5 ? 3 : n <= 8 ? 4 : n <= 13 ? 5 : n <= 25 ? 6 : 7; }
static int allowed(const int *n) {
    const int less = n[0] < n[1] ? n[0] : n[1], more = n[0] + n[1] - less;
    return less < 6 && more <= MOST_COUNTED[less];
}
static void make_histories(Model *m) {
    int known[256][3] = {{0}}, count = 1;
    for (int s = 0; s < count; s++) {
        for (int y = 0; y < 2; y++) {
            int n[2] = {known[s][0], known[s][1]};
            n[y]++, n[!y] = lessened(n[!y]);
            while (!allowed(n)) n[n[y] >= n[!y] ? y : !y]--;
            const int last = n[0] && n[1] ? y : 0;
            int found = 0;
            while (found < count && (known[found][0] != n[0] || known[found][1] != n[1] || known[found][2] != last)) found++;
            if (found == count) known[count][0] = n[0], known[count][1] = n[1], known[count++][2] = last;
            m->next[y][s] = (uint8_t)found;
        }
        m->bits[s] = (uint8_t)(known[s][0] + known[s][1]);
        m->speaks[s] = s != 0, m->agree[s] = s && (!known[s][0] || !known[s][1]);
        for (int c = 0; c < CONTEXTS; c++)
            m->by_history[c][s] = new_count((known[s][1] + 0.4f) / (known[s][0] + known[s][1] + 0.8f));
    }
}

static void arrive(Place *w, const uint8_t *text, int64_t begin, uint32_t *follows) {
    memset(w, 0, sizeof *w);
    w->follows = follows, w->text = text, w->begin = w->end = w->line = begin, w->above = w->beside.at = w->like.at = -1;
}

// A model that has read nothing, in memory of `mixing_bytes`, all zeros; and its weights, all zeros too.
void mixing_start(Model *m, Weights *weights, int64_t capacity, const uint8_t *kind, const uint8_t *fold) {
    size(m, capacity);
    memcpy(m->kind, kind, 256), memcpy(m->fold, fold, 256);
    for (int i = 0; i < STRETCHED; i++) {
        const double p = (i + 0.5) / STRETCHED;
        m->stretched[i] = (float)log(p / (1 - p));
    }
    make_histories(m);
    arrive(&m->place, 0, 0, 0);
    for (int i = 0; i < MATCHES; i++)
        for (int j = 0; j < LENGTHS; j++) m->matched[i][j] = new_count(0.75f);
    uint16_t line[STEPS];
    for (int i = 0; i < STEPS; i++) line[i] = (uint16_t)(squash((i - STEPS / 2) * 0.5f) * 65535);
    for (int e = 0; e < ESTIMATES; e++)
        for (int i = 0; i < 65536; i++) memcpy(m->estimated[e][i], line, sizeof line);
    for (int row = 0; row < ALL_ROWS; row++) {
        for (int i = 0; i < CONTEXTS; i++) weights->sets[row][i] = FIRST_WEIGHT;
        weights->sets[row][HEARD] = FIRST_HEARD;
    }
    for (int f = 0; f < FINALS; f++)
        for (int row = 0; row < 256; row++)
            for (int s = 0; s < SETS; s++) weights->final[f][row][s] = 1.0f / SETS;
}

static inline uint32_t *followed(const Place *w) { return w->follows + w->before[0] % FOLLOWS; }

static inline int half_octave(int64_t n) {  // of a number from 1 on
    const int octave = 63 - __builtin_clzll((uint64_t)n);
    return octave ? 2 * octave + (int)(n >> (octave - 1) & 1) : 0;
}

// Where something is kept of the last two units, of such a part of a word, of a whole word.
static inline uint32_t pair_of(const Place *w) { return (uint32_t)(w->last & 0xFFFF); }
static inline uint32_t part_of(const Place *w) { return (uint32_t)(hashed(w->word ? w->word : w->gap, 77) >> 20) % KEPT; }
static inline uint32_t kept_at(uint32_t word) { return word >> 16; }

// After a unit that is neither letter nor digit.
static inline void nest(Place *w, int unit) {
    Bracket *last = w->brackets + w->depth;
    if (unit == '(' || unit == '[' || unit == '{') {
        if (w->depth < NESTED - 1) w->depth++, last++;
        *last = (Bracket){w->before[0], (uint8_t)unit, 0};
    } else if (!w->depth) {
        return;
    } else if (unit == ')' || unit == ']' || unit == '}') {
        w->depth--;
    } else if (unit == ',' && last->commas < 255) {
        last->commas++;
    }
}

static inline uint32_t *heading_of(Place *w) { return w->headings + (w->indent < INDENTS ? w->indent : INDENTS - 1); }

// Where the indent of a line is known.
static inline void find_parent(Place *w) {
    uint32_t *const own = heading_of(w), *end = w->headings + INDENTS;
    memset(own + 1, 0, (char *)end - (char *)(own + 1));
    w->parent = 0;
    for (uint32_t *at = own; at > w->headings && !w->parent;) w->parent = *--at;
}

static inline int kind_at(const Model *m, const Place *w, int64_t at) {
    return at < w->line - 1 ? m->kind[w->text[at]] : LINE;
}
// Beside a unit stands the same one of a line before; beside any other sign, what is neither letter nor digit, the next
// sign there; beside any other letter or digit the next one, as long as no sign comes.
static inline void align(const Model *m, const Place *w, Beside *b, int unit, int kind) {
    if (b->at < 0) return;
    int there = kind_at(m, w, b->at);
    if (kind > DIGIT && w->text[b->at] != unit)
        while (there <= DIGIT) there = kind_at(m, w, ++b->at), b->same = 0;
    if (there == LINE) b->same = 0;
    else if (w->text[b->at] == unit) b->at++, b->same++;
    else b->at += kind > DIGIT || there <= DIGIT, b->same = 0;
}

// The first field of a line is over.
static inline void find_like(Place *w, Model *into) {
    w->in_fields = 1;
    if (!into) return;
    uint64_t field = 0;
    for (int64_t i = w->line; i < w->end; i++) field = hashed(field, w->text[i]);
    int32_t *kept = into->like + (field >> 48);
    w->like = (Beside){*kept ? *kept : -1, 0};
    *kept = (int32_t)w->end;
}

// Pass the unit at `end`; `into`: the model that keeps what it was and what stood before it, or 0.
static inline void pass(const Model *m, Place *w, Model *into) {
    const int unit = w->text[w->end++], second = w->second;
    w->second = !second && m->kind[unit] == FIRST_OF_TWO;
    const int kind = second || w->second ? LETTER : m->kind[unit];
    if (into) {
        into->pairs[pair_of(w)] = into->pairs[pair_of(w)] << 8 | (uint32_t)unit;
        into->parts[part_of(w)] = (uint16_t)(into->parts[part_of(w)] << 8 | unit);
        if (w->word && kind > CAPITAL) into->words[kept_at(w->word)] = (Seen){w->word, (int32_t)w->end};
    }
    if (kind >= QUOTE && unit != '\'') w->mark = w->mark == unit ? 0 : unit;
    w->earlier = w->earlier << 8 | w->last >> 56, w->last = w->last << 8 | (uint64_t)unit;
    if (kind > CAPITAL && !(kind == SPACE && (w->kinds & 15) == SPACE)) w->shape = w->shape << 8 | (uint32_t)unit;
    w->kinds = w->kinds << 4 | (uint32_t)kind;
    if (kind <= CAPITAL) {
        if (!w->word) w->gap = 0, w->begins = w->begins << 8 | m->fold[unit];
        w->word = (uint32_t)(hashed(w->word, m->fold[unit]) >> 16) | 1, w->letters++;
    } else {
        if (w->word) {
            if (!w->opening) w->opening = *heading_of(w) = w->word;
            *followed(w) = w->word;
            w->before[2] = w->before[1], w->before[1] = w->before[0], w->before[0] = w->word;
            w->word = 0, w->gap = 0, w->letters = 0;
        }
        w->gap = (uint32_t)(hashed(w->gap, (uint64_t)unit) >> 16);
    }
    if (kind > DIGIT) nest(w, unit);
    align(m, w, &w->beside, unit, kind), align(m, w, &w->like, unit, kind);
    if (kind == SPACE && w->first && !w->in_fields) find_like(w, into);
    if (kind == LINE) {
        w->beside = (Beside){w->line, 0}, w->like = (Beside){-1, 0}, w->in_fields = 0;
        w->length = (int)(w->end - w->line), w->above = w->line, w->line = w->end;
        w->heading = w->opening, w->opening = 0, w->column = w->indent = w->first = 0;
    } else {
        w->column++;
        if (!w->first) {
            if (kind == SPACE) w->indent++;
            else w->first = unit, find_parent(w);
        }
    }
}

// A prediction on its way to the next unit, and what its inputs were.
typedef struct {
    uint64_t last;               // units before it
    uint64_t hashes[2][CONTEXTS];  // of the unit's upper half and of its lower one
    uint8_t *slots[2][CONTEXTS];   // where the histories of each stand
    Direct *counted[2][DIRECT];
    int opened[2];               // the node at which each half was opened; 0: it was not
    int sought;                  // the node whose hashes the lower half has
    const uint8_t *match[MATCHES];  // what follows the match
    int length[MATCHES], expected;
    int one, kinds, in_word, column, form;  // what weights are chosen by
    int node, bit;               // 1 and the bits of the unit so far; how many these are
    float heard;                 // the network's probability of a 1; below 0: none is heard
    float x[INPUTS] __attribute__((aligned(64)));
    Count counts[COUNTED] __attribute__((aligned(64)));
    float mixed[SETS_PADDED] __attribute__((aligned(64))), p_mixed[SETS_PADDED] __attribute__((aligned(64)));
    float together, p_together, p_final[FINALS], between;
    uint8_t states[CONTEXTS];
    int rows[SETS], finals[FINALS], matched[MATCHES], match_bit[MATCHES], estimates[ESTIMATES], step;
} Next;

static inline int32_t *head_of(const Model *m, uint64_t last, uint64_t earlier, int which) {
    const uint64_t key = which ? last << 24 : last ^ (earlier << 32) * 0x9E3779B97F4A7C15u;
    return heads(m, which) + (hashed(70, key) >> (64 - m->head_bits));
}

static inline int alike(const uint8_t *a, const uint8_t *b, int most) {  // units before a and b
    int n = 0;
    for (; n + 8 <= most; n += 8) {
        uint64_t x, y;
        memcpy(&x, a - n - 8, 8), memcpy(&y, b - n - 8, 8);
        if (x != y) break;
    }
    while (n < most && a[-1 - n] == b[-1 - n]) n++;
    return n;
}

static inline int shorter(int64_t one, int64_t other) {
    const int64_t least = one < other ? one : other;
    return least < LONGEST ? (int)least : LONGEST;
}

// Where such a text stood last in a text that the model has not read; what it says itself is newer than what was read.
static void look_in_itself(const Place *w, Next *n) {
    const uint8_t *end = w->text + w->end;
    int wanted = MATCHES;
    for (const uint8_t *at = end - 1; wanted && at - MATCH_LEAST[MATCHES - 1] >= w->text; at--) {
        if (memcmp(at - 4, end - 4, 4)) continue;
        const int length = alike(at, end, shorter(at - w->text, w->end));
        while (wanted && length >= MATCH_LEAST[wanted - 1]) wanted--, n->length[wanted] = length, n->match[wanted] = at;
    }
}

static void look_for_matches(const Model *m, const Place *w, Next *n) {
    const uint8_t *known = text_of(m);
    const int64_t had = w->end - w->begin;
    n->length[0] = n->length[1] = 0;
    if (w->text != known) look_in_itself(w, n);
    for (int i = 0; i < MATCHES; i++) {
        if (n->length[i] || had < MATCH_LEAST[i]) continue;
        const int64_t at = *head_of(m, w->last, w->earlier, i);
        const int length = alike(known + at, w->text + w->end, shorter(had, at));
        if (length >= MATCH_LEAST[i]) n->length[i] = length, n->match[i] = known + at;
    }
    if (!n->length[0]) n->length[0] = n->length[1], n->match[0] = n->match[1];
    n->expected = n->length[0] ? *n->match[0] + 1 : 0;
}

static inline Line *line_of(const Model *m, uint64_t hash) {
    return lines(m) + ((hash >> 32) * (uint64_t)m->lines >> 32);
}

static inline void fetch(const Model *m, const uint64_t *hashes) {
    for (int i = 0; i < CONTEXTS; i++) __builtin_prefetch(line_of(m, hashes[i]), 1);
}

// The contexts of a place's next unit.
static void look(const Model *m, const Place *w, Next *n) {
    look_for_matches(m, w, n);
    const uint64_t last = w->last, one = last & 0xFF;
    const int up = w->above >= 0 && w->above + w->column < w->line ? w->text[w->above + w->column] + 1 : 0;
    const int column = w->column < 255 ? w->column : 255;
    const uint64_t here = w->word ? hashed(20, w->word) : hashed(21, (uint64_t)w->before[0] << 32 ^ w->gap);
    const uint64_t longest = (uint64_t)(n->length[0] < 16 ? n->length[0] : 16 + (n->length[0] > 32));
    const Seen *seen = m->words + kept_at(w->word);
    const int is_own = w->text == text_of(m), is_whole = w->word && seen->word == w->word;
    const int ago = is_whole ? 1 + half_octave((is_own ? 0 : m->length) + w->end - seen->end) : 0;
    const uint64_t this_part = is_own ? 1 + (uint64_t)(w->end >> NEAR) : 0;
    const int form = (w->letters < 6 ? w->letters : 6) << 2 | is_whole << 1 | ((w->kinds & 15) == CAPITAL);
    const uint64_t part = m->parts[part_of(w)], after_two = m->pairs[pair_of(w)] & 0xFFFFFF;
    const uint64_t beside = w->beside.at < 0 ? 0 : w->text[w->beside.at] + 1;
    const uint64_t after_it = w->beside.at < 0 || w->beside.at + 1 == w->line ? 0 : w->text[w->beside.at + 1] + 1;
    const uint64_t like = w->like.at < 0 ? 0 : w->text[w->like.at] + 1;
    const int leads = n->length[0] >= MATCH_LEAST[0] && (!w->trail || (w->strayed && n->length[0] > w->agreed));
    const uint64_t led = leads ? (uint64_t)n->expected : w->trail ? w->text[w->trail] + 1 : 0;
    const int strayed = leads ? 0 : w->strayed, agreed = leads ? n->length[0] : w->agreed;
    const uint64_t trust = (uint64_t)((strayed < 8 ? strayed : 8) << 4 | (agreed < 15 ? agreed : 15));
    const Bracket *in = w->brackets + w->depth;
    uint64_t *h = n->hashes[0];
    for (int order = 0; order < 7; order++) *h++ = hashed(order + 1, last & ((1ull << 8 * order) - 1));
    *h++ = hashed(9, last);
    *h++ = hashed(here, 0);
    *h++ = hashed(here, hashed(22, w->before[0]));
    *h++ = hashed(here, hashed(23, w->before[1]));
    *h++ = hashed(here, hashed(24, (uint64_t)w->before[0] << 32 | w->before[1]));
    *h++ = hashed(41, (uint64_t)(w->indent << 16 | w->first << 8) << 32 | one << 32 | w->word);
    *h++ = hashed(42, (uint64_t)column << 16 | (uint64_t)up);
    *h++ = hashed(43, (uint64_t)column << 8 | one);
    *h++ = hashed(50, (uint64_t)n->expected << 16 | longest << 8 | one);
    *h++ = hashed(51, (uint64_t)(w->kinds & 0xFFFFFFF) << 8 | one);
    *h++ = hashed(here, hashed(25, w->before[2]));
    *h++ = hashed(here, hashed(26, *followed(w)));
    *h++ = hashed(here, hashed(27, w->opening));
    *h++ = hashed(here, hashed(28, (uint64_t)column));
    *h++ = hashed(33, last & 0xFFFF00);
    *h++ = hashed(34, last & 0xF0F0F0FFFF);
    *h++ = hashed(hashed(10, last), w->earlier & 0xFFFFFF);
    *h++ = hashed(hashed(29, last & 0xFFFF), w->before[0]);
    *h++ = hashed(hashed(here, hashed(81, w->before[2])), (uint64_t)w->before[0] << 32 | w->before[1]);
    *h++ = hashed(hashed(82, w->shape), one);
    *h++ = hashed(hashed(83, w->shape & 0xFFFF), w->word);
    *h++ = hashed(85, w->kinds);
    *h++ = hashed(hashed(87, w->kinds & 0xFFF), (uint64_t)w->before[0] << 32 | w->word);
    *h++ = hashed(hashed(88, w->begins & 0xFFFF), last & 0xFFFF);
    *h++ = hashed(hashed(89, w->gap), (uint64_t)w->before[0] << 8 | one);
    *h++ = hashed(hashed(92, (uint64_t)w->indent << 8 | (uint64_t)w->first), last & 0xFFFF);
    *h++ = hashed(hashed(120, part), (uint64_t)form);
    *h++ = hashed(hashed(121, part & 0xFF), (uint64_t)form << 8 | one);
    *h++ = hashed(hashed(122, part & 0xFF), last & 0xFFFF);
    *h++ = hashed(hashed(123, this_part), w->word);
    *h++ = hashed(hashed(124, (uint64_t)ago), w->word);
    *h++ = hashed(hashed(125, (uint64_t)form), one);
    *h++ = hashed(hashed(126, (uint64_t)w->mark), w->word);
    *h++ = hashed(hashed(127, (uint64_t)w->mark << 8 | one), (uint64_t)is_whole);
    *h++ = hashed(hashed(128, after_two), one);
    *h++ = hashed(hashed(129, (uint64_t)column), (uint64_t)w->length);
    *h++ = hashed(hashed(130, beside << 9 | after_it), (uint64_t)(w->beside.same < 15 ? w->beside.same : 15) << 8 | one);
    *h++ = hashed(hashed(131, led << 8 | trust), beside);
    *h++ = hashed(hashed(132, beside << 9 | after_it), here);
    *h++ = hashed(hashed(136, like << 8 | (uint64_t)(w->like.same < 15 ? w->like.same : 15)), beside);
    *h++ = hashed(hashed(133, led << 8 | trust), last & 0xFFFF);
    *h++ = hashed(hashed(134, (uint64_t)in->word << 16 | (uint64_t)in->commas << 8 | in->unit), one);
    *h++ = hashed(hashed(135, (uint64_t)w->parent << 32 | w->heading), ((uint64_t)w->indent << 8 | (uint64_t)w->first) << 8 | one);
    fetch(m, n->hashes[0]);
    n->last = last, n->one = (int)one, n->column = column;
    n->kinds = (int)(w->kinds & 0xFFF), n->in_word = w->word != 0, n->form = form;
    n->opened[0] = n->opened[1] = n->sought = 0;
}

static inline void look_lower(const Model *m, Next *n, int node) {
    n->sought = node;
    for (int i = 0; i < CONTEXTS; i++) {
        const uint64_t h = (n->hashes[0][i] + (uint64_t)node) * 0x9E3779B97F4A7C15u;
        n->hashes[1][i] = h ^ h >> 31;
    }
    fetch(m, n->hashes[1]);
}

static uint8_t NOTHING[15];  // of a context that was never seen

// The histories of a context; to write on, where it has none, in the place of the least known context.
static inline uint8_t *find(const Model *m, uint64_t hash, int write) {
    Line *line = line_of(m, hash);
    const uint32_t check = (uint32_t)(hash % 255 + 1);  // 0: it was never written on
    uint32_t checks;
    memcpy(&checks, line->check, WAYS);
    checks ^= check * 0x01010101u;
    const uint32_t same = (checks - 0x01010101u) & ~checks & 0x80808080u;  // its lowest bit is of the first byte of 0
    if (same) return line->history[__builtin_ctz(same) / 8];
    if (!write) return NOTHING;
    int fewest = 256 * WAYS;
    for (int i = 0; i < WAYS; i++) {
        const int known = (m->bits[line->history[i][0]] + (line->check[i] != 0)) * WAYS + i;
        fewest = known < fewest ? known : fewest;
    }
    const int least = fewest % WAYS;
    line->check[least] = (uint8_t)check;
    return memset(line->history[least], 0, 15);
}

static inline void estimates_of(uint64_t last, int node, int *found) {
    found[0] = (int)(last & 0xFF) << 8 | node;
    found[1] = (int)(((last & 0xFFFF) << 8 | (uint64_t)node) * 0x9E3779B97F4A7C15u >> 48);
    found[2] = (int)(((last & 0xFFFFFF) << 8 | (uint64_t)node) * 0xD6E8FEB86659FD93u >> 48);
}

// Be ready for a bit of the unit, after a node; `write`: it will be learned.
static inline void ready(const Model *m, Next *n, int node, int bit, int write) {
    const int half = bit >= 4, opened = node >> bit % 4;
    n->node = node, n->bit = bit;
    if (n->opened[half] == opened) return;
    n->opened[half] = opened;
    if (half && n->sought != opened) look_lower(m, n, opened);
    for (int order = 1; order <= DIRECT; order++) {
        const uint64_t key = (n->last & ((1ull << 8 * order) - 1)) << 8 | (uint64_t)opened;
        n->counted[half][order - 1] = direct(m, order) + (hashed(60, key) >> (64 - m->direct_bits));
        __builtin_prefetch(n->counted[half][order - 1], 1);
    }
    for (int i = 0; i < CONTEXTS; i++) n->slots[half][i] = find(m, n->hashes[half][i], write);
}

static inline int in_half(const Next *n) {  // place of the next bit's history
    return n->bit < 4 ? n->node - 1 : ((n->node & ((1 << (n->bit - 4)) - 1)) | 1 << (n->bit - 4)) - 1;
}

static inline int length_kind(int n) {
    return n < 16 ? n : n < 20 ? 16 : n < 24 ? 17 : n < 28 ? 18 : n < 32 ? 19 : n < 40 ? 20 : n < 48 ? 21 : n < 64 ? 22 : 23;
}

// The probability that the next bit is 1.
static inline float predict(const Model *m, const Weights *by, Next *n) {
    const int at = in_half(n), half = n->bit >= 4;
    uint8_t *const *slots = n->slots[half];
    float *x = n->x;
    int known = 0;
    estimates_of(n->last, n->node, n->estimates);
    for (int e = 0; e < ESTIMATES; e++) __builtin_prefetch(m->estimated[e][n->estimates[e]] + STEPS / 2, 1);
    for (int i = 0; i < CONTEXTS; i++) {
        const int history = slots[i][at];
        const Count count = m->by_history[i][history];
        const float said = stretch(m, count) * m->speaks[history];  // no branch: none of them could be foretold
        n->states[i] = (uint8_t)history, n->counts[i] = count;
        x[i] = said, x[AGREED + i] = said * m->agree[history];
    }
    for (int i = 0; i < ORDERS; i++) known += n->states[i] != 0;
    x += SIDES;
    for (int i = 0; i < MATCHES; i++, x += 2) {
        const int unit = n->length[i] ? *n->match[i] : -1;
        x[0] = x[1] = 0, n->matched[i] = -1;
        if (unit < 0 || (unit | 256) >> (8 - n->bit) != n->node) continue;
        const int bit = unit >> (7 - n->bit) & 1, kind = length_kind(n->length[i]);
        const Count count = m->matched[i][kind];
        n->matched[i] = kind, n->match_bit[i] = bit;
        x[0] = bit ? stretch(m, count) : -stretch(m, count);
        x[1] = (bit ? CERTAINTY : -CERTAINTY) * (probability(count) - 0.5f);
    }
    for (int i = 0; i < DIRECT; i++) *x++ = stretch(m, n->counted[half][i]->of[at + 1] ^ HALF);
    *x = BIAS;
    const float heard = n->heard;
    x = n->x + HEARD;
    x[0] = heard < 0 ? 0 : clipped(logf(heard / (1 - heard)), MOST_HEARD);
    x[1] = heard < 0 ? 0 : CERTAINTY * (heard - 0.5f);
    n->rows[0] = n->node, n->rows[1] = n->one, n->rows[2] = (n->kinds & 255) * 8 + n->bit;
    n->rows[3] = (n->in_word * 9 + known) * 8 + n->bit, n->rows[4] = n->expected * 8 + n->bit, n->rows[5] = n->column;
    n->rows[6] = n->states[FOUR], n->rows[7] = n->states[SPELT];
    n->rows[8] = (int)(hashed(61, n->last & 0xFFFF) % SHARED);
    n->rows[9] = (int)(hashed(hashed(62, (uint64_t)n->form), (uint64_t)n->node) % SHARED);
    n->rows[10] = (int)(hashed(hashed(63, (uint64_t)n->kinds), (uint64_t)n->node) % SHARED);
    n->finals[0] = n->node, n->finals[1] = n->one;
    n->finals[2] = length_kind(n->length[0]) * 8 + n->bit;
    const Vector *inputs = (const Vector *)n->x;
    float together = 0;
    for (int s = 0; s < SETS; s++) {
        const Vector *weights = (const Vector *)by->sets[FIRST_ROW[s] + n->rows[s]];
        Vector even = weights[0] * inputs[0], odd = weights[1] * inputs[1];
        for (int v = 2; v < VECTORS; v += 2) even += weights[v] * inputs[v];
        for (int v = 3; v < VECTORS; v += 2) odd += weights[v] * inputs[v];
        n->mixed[s] = clipped(total(even + odd), LARGEST);
    }
    for (int s = 0; s < SETS_PADDED; s++) n->p_mixed[s] = squash(n->mixed[s]);
    for (int f = 0; f < FINALS; f++) {
        float sum = 0;
        for (int s = 0; s < SETS; s++) sum += by->final[f][n->finals[f]][s] * n->mixed[s];
        sum = clipped(sum, LARGEST), n->p_final[f] = squash(sum), together += sum;
    }
    n->together = together * (1.0f / FINALS), n->p_together = squash(n->together);
    const float place = clipped(n->together, (STEPS - 2) / 4.0f) * 2 + STEPS / 2;
    n->step = place < STEPS - 2 ? (int)place : STEPS - 2, n->between = place - n->step;
    float p = n->p_together;
    for (int e = 0; e < ESTIMATES; e++) {
        const uint16_t *line = m->estimated[e][n->estimates[e]] + n->step;
        p += 1.0f / 65535 * (line[0] * (1 - n->between) + line[1] * n->between);
    }
    p *= 1.0f / (1 + ESTIMATES);
    return p < LEAST ? LEAST : p > 1 - LEAST ? 1 - LEAST : p;
}

// The bit that was predicted came.
static inline void learn(Model *m, Weights *by, Next *n, int bit, float rate) {
    const int at = in_half(n), half = n->bit >= 4;
    const Vector *inputs = (const Vector *)n->x;
    for (int s = 0; s < SETS; s++) {
        Vector *weights = (Vector *)by->sets[FIRST_ROW[s] + n->rows[s]];
        const float wrong = (bit - n->p_mixed[s]) * rate;
        for (int v = 0; v < VECTORS; v++) weights[v] += wrong * inputs[v];
    }
    for (int f = 0; f < FINALS; f++) {
        const float wrong = (bit - n->p_final[f]) * FINAL_RATE;
        for (int s = 0; s < SETS; s++) by->final[f][n->finals[f]][s] += wrong * n->mixed[s];
    }
    for (int i = 0; i < COUNTED; i++) n->counts[i] = counted(n->counts[i], bit, FORGETS);
    uint8_t *const *slots = n->slots[half];
    for (int i = 0; i < CONTEXTS; i++) {
        m->by_history[i][n->states[i]] = n->counts[i];
        slots[i][at] = m->next[bit][slots[i][at]];
    }
    for (int i = 0; i < MATCHES; i++) {
        if (n->matched[i] < 0) continue;
        Count *count = &m->matched[i][n->matched[i]];
        *count = counted(*count, n->match_bit[i] == bit, FORGETS);
    }
    for (int i = 0; i < DIRECT; i++) {
        Count *count = &n->counted[half][i]->of[at + 1];
        *count = counted(*count ^ HALF, bit, DIRECT_FORGETS) ^ HALF;
    }
    for (int e = 0; e < ESTIMATES; e++) {
        uint16_t *line = m->estimated[e][n->estimates[e]] + n->step;
        const float right = bit ? 65535 : 0;
        line[0] = (uint16_t)(line[0] + (right - line[0]) * CORRECTED * (1 - n->between) + 0.5f);
        line[1] = (uint16_t)(line[1] + (right - line[1]) * CORRECTED * n->between + 0.5f);
    }
}

// The symbols of a vocabulary, sorted by their codes: one unit, or two. A branch is a bit that tells some of them apart;
// the bits that all of them have in common are not asked for, so a distribution over them sums to one.
typedef struct {
    int32_t bit, code;         // which of the CODE bits, and those before it
    int32_t low, middle, high; // the symbols where it is 0 stand before `middle`
    int32_t left, right;       // the branches beneath; −1: one symbol is left
    float share;               // of the text's symbols here, those where it is 1
} Branch;

typedef struct {
    const Branch *branches;
    const int32_t *symbols;
    const int32_t *paths;            // of each symbol the branch at each bit of its code; −1: it is not asked
    const uint8_t *units, *lengths;  // of each symbol two units, of which one or both count
    int32_t branch_count, vocabulary;
} Vocabulary;

// Symbols that are unlikely together share by how often the text has them.
static const float UNLIKELY = -10;

// Lets a model, behind which there are so many bytes more, read as many units more.
void mixing_widen(Model *m, int64_t more) { m->room += more; }

static inline void fetch_ahead(const Model *m, const Place *ahead, Next *n, int unit) {
    look(m, ahead, n);
    look_lower(m, n, 16 | unit >> 4);
    const uint64_t last = ahead->last << 8 | (uint64_t)unit, earlier = ahead->earlier << 8 | ahead->last >> 56;
    for (int k = 0; k < MATCHES; k++) __builtin_prefetch(head_of(m, last, earlier, k), 1);
    for (int bit = 0; bit < 8; bit++) {
        int estimates[ESTIMATES];
        estimates_of(ahead->last, (256 | unit) >> (8 - bit), estimates);
        for (int e = 0; e < ESTIMATES; e++) __builtin_prefetch(m->estimated[e][estimates[e]] + STEPS / 2, 1);
    }
}

// The longest match leads where no trail does, or one that strayed and agreed with less since.
static inline void take_trail(const Model *m, Place *w, int64_t at) {
    if (at == w->trail || (w->trail && !w->strayed)) return;
    const uint8_t *known = text_of(m);
    const int length = alike(known + at, known + w->end, shorter(w->end, at));
    if (length >= MATCH_LEAST[0] && length > w->agreed) w->trail = at, w->strayed = 0, w->agreed = length;
}

static inline void follow(const Model *m, Place *w, int unit) {
    if (!w->trail) return;
    if (text_of(m)[w->trail++] == unit) w->agreed++;
    else w->strayed++, w->agreed = 0;
    if (w->strayed > STRAYED) w->trail = w->strayed = w->agreed = 0;
}

static inline void append(Model *m, Place *w, int unit) {
    for (int k = 0; k < MATCHES; k++) {
        if (w->end - w->begin < MATCH_LEAST[k]) continue;
        int32_t *head = head_of(m, w->last, w->earlier, k);
        if (!k) take_trail(m, w, *head);
        *head = (int32_t)w->end;
    }
    follow(m, w, unit);
    text_of(m)[m->length++] = (uint8_t)unit;
    pass(m, w, m);
}

// Reads `count` symbols after those before, each bit of which is predicted and then learned; what comes next is fetched
// meanwhile. `heard` (count, CODE), if it is there: a network's probability that each bit is 1, below 0 where it said
// nothing. `nats`, if it is there: of each symbol −ln p before it was learned. Returns 0 where they are more than the
// model has room for, or there is no memory.
int mixing_read(Model *m, Weights *by, const Vocabulary *v, const int32_t *symbols, int64_t count, const float *heard,
                float *nats) {
    int64_t units = 0, at = 0;
    for (int64_t i = 0; i < count; i++) units += v->lengths[symbols[i]];
    if (m->length + units > m->room) return 0;
    if (!count) return 1;
    uint8_t *coming = malloc((size_t)units + 1);
    if (!coming) return 0;
    for (int64_t i = 0; i < count; i++)
        for (int k = 0; k < v->lengths[symbols[i]]; k++) coming[at++] = v->units[2 * symbols[i] + k];
    coming[at] = 0, at = 0;
    Next two[2];
    memset(two, 0, sizeof two);
    Place ahead = m->place;
    ahead.text = text_of(m), ahead.follows = m->follows;
    fetch_ahead(m, &ahead, two, coming[0]);
    for (int64_t i = 0; i < count; i++) {
        const int32_t *path = v->paths + (int64_t)CODE * symbols[i];
        float log_p = 0;
        for (int k = 0; k < v->lengths[symbols[i]]; k++, at++) {
            Next *now = two + (at & 1);
            const int unit = coming[at];
            append(m, &ahead, unit);
            if (at + 1 < units) fetch_ahead(m, &ahead, two + (~at & 1), coming[at + 1]);
            const float rate = RATE + FIRST_RATE / (1 + (float)m->decided / RATE_FALLS);
            for (int bit = 0; bit < 8; bit++) {
                const int asked = path[8 * k + bit], came = unit >> (7 - bit) & 1;
                if (asked < 0) continue;
                ready(m, now, (256 | unit) >> (8 - bit), bit, 1);
                now->heard = heard ? heard[CODE * i + 8 * k + bit] : -1;
                float p = predict(m, by, now);
                learn(m, by, now, came, rate);
                m->decided++;
                if (!nats) continue;
                if (log_p <= UNLIKELY) p = v->branches[asked].share;
                log_p += logf(came ? p : 1 - p);
            }
        }
        if (nats) nats[i] = -log_p;
    }
    free(coming);
    m->place = ahead, m->place.text = 0, m->place.follows = 0;
    return 1;
}

// What a network says, as the mixer hears it: sums of its probabilities, in the order of the codes.
static void sum_up(const Vocabulary *v, const float *logits, double *sums) {
    float largest = logits[0];
    for (int i = 1; i < v->vocabulary; i++) largest = logits[i] > largest ? logits[i] : largest;
    sums[0] = 0;
    for (int i = 0; i < v->vocabulary; i++) sums[i + 1] = sums[i] + (double)expf(logits[v->symbols[i]] - largest);
}
static inline float heard_at(const Branch *b, const double *sums) {
    const double all = sums[b->high] - sums[b->low], ones = sums[b->high] - sums[b->middle];
    return (float)((ones + 1e-12) / (all + 2e-12));
}

// From a network's logits (count, stride ≥ V) `heard` (count, CODE), as `mixing_read` takes it, of some symbols.
int mixing_hear(const Vocabulary *v, const float *logits, int64_t stride, const int32_t *symbols, int64_t count,
                float *heard) {
    double *sums = malloc((size_t)(v->vocabulary + 1) * sizeof *sums);
    if (!sums) return 0;
    for (int64_t i = 0; i < count; i++) {
        sum_up(v, logits + i * stride, sums);
        for (int bit = 0; bit < CODE; bit++) {
            const int branch = v->paths[(int64_t)CODE * symbols[i] + bit];
            heard[CODE * i + bit] = branch < 0 ? -1 : heard_at(v->branches + branch, sums);
        }
    }
    free(sums);
    return 1;
}

// The way to one symbol: each bit is predicted, decided by whoever asked, and learned.
typedef struct {
    Next next;
    Place place;
    int at, low, unit;  // the branch, −1 where the symbol is known; the first symbol below it; units that are known
    int hears;          // whether there is a network
    float p, told, log_p, rate;
    double sums[];      // see `sum_up`
} Walk;

int64_t mixing_walk_bytes(const Vocabulary *v) { return (int64_t)sizeof(Walk) + 8 * (v->vocabulary + 1); }

static void to_unit(Walk *w, Model *m) {
    look(m, &w->place, &w->next);
    w->rate = RATE + FIRST_RATE / (1 + (float)m->decided / RATE_FALLS);
}

// Where the symbol is known, all of it is read.
static void ask(Walk *w, Model *m, const Weights *by, const Vocabulary *v) {
    if (w->at < 0) {
        const int32_t symbol = v->symbols[w->low];
        for (int k = w->unit; k < v->lengths[symbol]; k++) append(m, &w->place, v->units[2 * symbol + k]);
        m->place = w->place, m->place.text = 0, m->place.follows = 0;
        return;
    }
    const Branch *b = v->branches + w->at;
    const int bit = b->bit % 8;
    if (b->bit / 8 > w->unit) {
        append(m, &w->place, b->code >> bit);
        w->unit++;
        to_unit(w, m);
    }
    ready(m, &w->next, 1 << bit | (b->code & ((1 << bit) - 1)), bit, 1);
    w->next.heard = w->hears ? heard_at(b, w->sums) : -1;
    w->p = predict(m, by, &w->next);
    w->told = w->log_p > UNLIKELY ? w->p : b->share;
}

// Sets out for the symbol after all that was read, of which a network says `logits` (V,), or 0; there is room for its
// units. Gives the probability that the first bit is 1, below 0 where there is one symbol alone.
float mixing_set_out(Walk *w, Model *m, Weights *by, const Vocabulary *v, const float *logits) {
    memset(w, 0, sizeof *w);
    if ((w->hears = logits != 0)) sum_up(v, logits, w->sums);
    w->place = m->place, w->place.text = text_of(m), w->place.follows = m->follows;
    w->at = v->branch_count ? 0 : -1;
    to_unit(w, m);
    ask(w, m, by, v);
    return w->at < 0 ? -1 : w->told;
}

// Learns the bit, and gives the probability that the next one is 1, below 0 where the symbol is known.
float mixing_go(Walk *w, Model *m, Weights *by, const Vocabulary *v, int came) {
    const Branch *b = v->branches + w->at;
    learn(m, by, &w->next, came, w->rate);
    m->decided++;
    w->log_p += logf(came ? w->told : 1 - w->told);
    w->at = came ? b->right : b->left, w->low = came ? b->middle : b->low;
    ask(w, m, by, v);
    return w->at < 0 ? -1 : w->told;
}

int32_t mixing_arrived(const Walk *w, const Vocabulary *v) { return v->symbols[w->low]; }

// A prediction of whole symbols, of which nothing is learned.
typedef struct {
    const Model *model;
    const Weights *by;
    const Vocabulary *vocabulary;
    double *sums;          // see `sum_up`
    int hears;             // whether there is a network
    float *logs;
    Place places[2];       // before the first unit, and after it
    Next next[2];
    int first;
    float spoken, rest;    // how much the network and the others had to say
    uint8_t window[WINDOW + 2];
    uint32_t follows[FOLLOWS];
} Spread;

// After a text (count,), of which a network says `logits` (V,), if it is there.
static void stand(Spread *s, const Model *m, const Weights *by, const Vocabulary *v, const int32_t *text, int64_t count,
                  const float *logits) {
    memset(s->next, 0, sizeof s->next);
    s->model = m, s->by = by, s->vocabulary = v, s->first = -1, s->spoken = s->rest = 0;
    if ((s->hears = logits != 0)) sum_up(v, logits, s->sums);
    int length = 0;
    int64_t from = count;
    while (from > 0 && length + v->lengths[text[from - 1]] <= WINDOW) length += v->lengths[text[--from]];
    for (int at = 0; from < count; from++)
        for (int i = 0; i < v->lengths[text[from]]; i++) s->window[at++] = v->units[2 * text[from] + i];
    memcpy(s->follows, m->follows, sizeof s->follows);
    arrive(s->places, s->window, 0, s->follows);
    while (s->places->end < length) pass(m, s->places, 0);
    look(m, s->places, s->next);
}

// The probability of a 1 at a branch.
static float at_branch(Spread *s, const Branch *b) {
    const int unit = b->bit / 8, bit = b->bit % 8;
    Place *w = s->places + unit;
    Next *n = s->next + unit;
    if (unit && s->first != b->code >> bit) {
        s->first = b->code >> bit;
        *w = s->places[0];
        s->window[w->end] = (uint8_t)s->first;
        pass(s->model, w, 0);
        look(s->model, w, n);
    }
    ready(s->model, n, 1 << bit | (b->code & ((1 << bit) - 1)), bit, 0);
    n->heard = s->hears ? heard_at(b, s->sums) : -1;
    return predict(s->model, s->by, n);
}

static void spread(Spread *s, int at, int low, float log_p) {
    if (at < 0) {
        s->logs[s->vocabulary->symbols[low]] = log_p;
        return;
    }
    const Branch *b = s->vocabulary->branches + at;
    const float p = log_p > UNLIKELY ? at_branch(s, b) : b->share;
    spread(s, b->left, b->low, log_p + logf(1 - p));
    spread(s, b->right, b->middle, log_p + logf(p));
}

// A symbol that came, and how probable it was. Of what the mixer says of each symbol a share was `kept`, to which is
// `added` (V,), if it is there.
typedef struct { int32_t symbol; float p, kept; const float *added; } Came;

static inline float probable(const Came *c, float log_p, float added) {
    return c->added ? c->kept * expf(log_p) + added : expf(log_p);
}

// Whether a symbol from `low` to before `high`, which together have log_p, is more probable than the one that came; the
// likelier half is looked at first.
static int beaten(Spread *s, int at, int low, int high, float log_p, const Came *c) {
    const Vocabulary *v = s->vocabulary;
    float most = 0;
    for (int i = low; i < high && c->added; i++)
        if (v->symbols[i] != c->symbol && c->added[v->symbols[i]] > most) most = c->added[v->symbols[i]];
    if (probable(c, log_p, most) <= c->p) return 0;
    if (at < 0) return v->symbols[low] != c->symbol;
    const Branch *b = v->branches + at;
    const float p = log_p > UNLIKELY ? at_branch(s, b) : b->share;
    const float left = log_p + logf(1 - p), right = log_p + logf(p);
    if (left > right && beaten(s, b->left, b->low, b->middle, left, c)) return 1;
    if (beaten(s, b->right, b->middle, b->high, right, c)) return 1;
    return left <= right && beaten(s, b->left, b->low, b->middle, left, c);
}

// How much the network and the others had to say to the prediction that was just made.
static void listen(Spread *s, const Next *n) {
    for (int k = 0; k < SETS; k++) {
        const float *weights = s->by->sets[FIRST_ROW[k] + n->rows[k]];
        float final = 0;
        for (int f = 0; f < FINALS; f++) final += fabsf(s->by->final[f][n->finals[f]][k]);
        for (int i = 0; i < HEARD; i++) s->rest += final * fabsf(weights[i] * n->x[i]);
        for (int i = HEARD; i < INPUTS; i++) s->spoken += final * fabsf(weights[i] * n->x[i]);
    }
}

// ln p of one symbol.
static float way_to(Spread *s, int32_t symbol) {
    const Vocabulary *v = s->vocabulary;
    const int32_t *path = v->paths + (int64_t)CODE * symbol;
    float log_p = 0;
    for (int bit = 0; bit < CODE; bit++) {
        if (path[bit] < 0) continue;
        const Branch *b = v->branches + path[bit];
        float p = b->share;
        if (log_p > UNLIKELY) p = at_branch(s, b), listen(s, s->next + bit / 8);
        log_p += logf(v->units[2 * symbol + bit / 8] >> (7 - bit % 8) & 1 ? p : 1 - p);
    }
    return log_p;
}

// ln p after each of `count` spans (begin, end) of a text, of which nothing is learned: of each of V symbols, `logs`
// (count, V); or where `symbols` (count,) came, of these alone, `logs` (count,), with the share that the network has in
// all that was said, `shares`, and whether no other symbol had more, `first`. `logits` (count, stride ≥ V): a network's,
// or 0. `kept` (count,) and `added` (count, V), or 0: see `Came`.
typedef struct {
    const Model *model;
    const Weights *by;
    const Vocabulary *vocabulary;
    const int32_t *text;
    const int64_t *spans;
    int64_t count;
    const float *logits;
    int64_t stride;
    const int32_t *symbols;
    const float *kept, *added;
    float *logs, *shares;
    uint8_t *first;
    double *sums; // (threads, V + 1)
} Foretold;

static void foretell_some(void *given) {
    const Foretold *g = given;
    const Vocabulary *v = g->vocabulary;
    const int root = v->branch_count ? 0 : -1;
    Spread s;
    s.sums = g->sums + (ptrdiff_t)thread_number() * (v->vocabulary + 1);
    for (ptrdiff_t i, end; hand_out(g->count, 1, &i, &end);) {
        stand(&s, g->model, g->by, v, g->text + g->spans[2 * i], g->spans[2 * i + 1] - g->spans[2 * i],
              g->logits ? g->logits + i * g->stride : 0);
        s.logs = g->logs + i * v->vocabulary;
        if (!g->symbols) {
            spread(&s, root, 0, 0);
            continue;
        }
        Came c = {g->symbols[i], 0, 1, 0};
        if (g->added) c.kept = g->kept[i], c.added = g->added + i * v->vocabulary;
        const float log_p = way_to(&s, c.symbol);
        c.p = probable(&c, log_p, c.added ? c.added[c.symbol] : 0);
        g->logs[i] = c.added ? logf(c.p) : log_p;
        g->shares[i] = s.spoken > 0 ? s.spoken / (s.spoken + s.rest) : 0;
        g->first[i] = !beaten(&s, root, 0, v->vocabulary, 0, &c);
    }
}

// Returns 0 where there is no memory.
int mixing_predict(const Model *m, const Weights *by, const Vocabulary *v, const int32_t *text, const int64_t *spans,
                   int64_t count, const float *logits, int64_t stride, const int32_t *symbols, const float *kept,
                   const float *added, float *logs, float *shares, uint8_t *first, int threads) {
    Foretold all = {m, by, v, text, spans, count, logits, stride, symbols, kept, added, logs, shares, first, 0};
    if (count < 4) threads = 1;
    if (!(all.sums = malloc((size_t)threads * (size_t)(v->vocabulary + 1) * sizeof *all.sums))) return 0;
    together(threads, foretell_some, &all);
    free(all.sums);
    return 1;
}
