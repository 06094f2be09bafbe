/* Shared by the parts of this program: the member, and checks. */
#ifndef CHECK_H
#define CHECK_H

#include <libi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* How long a call that has to succeed may take. */
#define TIMEOUT 30000

extern libi_member *me;
extern uint32_t my_rank, the_size;

/* How many descriptors are open. */
int descriptors(void);

/* Says what is wrong, and ends the process with another status than 0. */
void wrong(const char *file, int line, const char *what);
void check_code(const char *file, int line, const char *call, libi_result code, libi_result expected);

#define CHECK(condition) ((condition) ? (void)0 : wrong(__FILE__, __LINE__, #condition))
#define GIVES(expected, call) check_code(__FILE__, __LINE__, #call, (call), (expected))
#define FINE(call) GIVES(LIBI_OK, call)
/* The text of the last error has this in it. */
#define SAYS(text) CHECK(strstr(libi_last_error(), (text)) != NULL)

/* Bytes that differ from each other and with the seed; to be freed. */
unsigned char *pattern(size_t length, uint32_t seed);
/* A part is the pattern of this length and seed. */
int is_pattern(const libi_data *data, size_t index, size_t length, uint32_t seed);

/* Which operation this is, in everybody's count; so bytes of different operations differ. */
extern uint32_t nth;

/* What has come of an operation that was started, after having waited for it in one way or another,
   and freed it; NULL if nothing comes of it here. */
libi_data *taken(libi_pending *pending);

void take_place(libi_progress progress);
void leave(void);

/* What this program can do, each called with the words behind it. */
void operations(int progress);
void reductions(void);
void misuse(void);
void before_a_place(void);
void mismatch(uint32_t other);
void impatient(uint32_t late);
void lost(uint32_t victim);
void left(uint32_t victim);
void losses(uint32_t killed);
void restarted(uint32_t victim);
void lost_leader(uint32_t leader);
void absent(uint32_t rank);
void loops(void);
void threads(void);
void folds_that_call(void);
void fold_that_ends(uint32_t which, int by_exit);
void forked_before(void);
void beside(void);
void forked_after(void);
void closed(void);
void twice(void);
void never_finalizes(void);
void finalizes(void);
void closes_all(void);
void front(void);
void sigpipe(int ignored);

#endif
