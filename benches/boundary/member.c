/* What a member in C measures: see main.rs. It does as the member in Rust there does. */
#include <libi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PATIENCE 60000

static void done(libi_member *me, libi_result result)
{
  if (result != LIBI_OK) {
    fprintf(stderr, "%s\n", libi_member_error(me));
    exit(1);
  }
}

static double now(void)
{
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

int main(int argc, char **argv)
{
  libi_member *me;
  char order[64], answer[64], bytes[64] = {0};
  double began;
  long times, at;
  (void)argv;
  done(me, libi_member_init(LIBI_PROGRESS_THREAD, &me));
  if (argc > 1) { /* it was to join, and no more */
    done(me, libi_member_finish(me, PATIENCE));
    libi_member_free(me);
    return 0;
  }
  for (;;) { /* orders are "barrier N" and "broadcast N", until an empty one comes */
    memset(order, 0, sizeof order);
    if (libi_member_is_master(me)) {
      libi_data *data;
      done(me, libi_member_recv(me, &data, PATIENCE));
      memcpy(order, libi_data_bytes(data, 0), libi_data_length(data, 0));
      libi_data_free(data);
    }
    done(me, libi_member_broadcast_into(me, 0, order, sizeof order, PATIENCE));
    if (!order[0]) break;
    times = atol(strchr(order, ' '));
    began = now();
    if (!strncmp(order, "barrier", 7)) {
      for (at = 0; at < times; at++) done(me, libi_member_barrier(me, PATIENCE));
    } else {
      for (at = 0; at < times; at++) done(me, libi_member_broadcast_into(me, 0, bytes, sizeof bytes, PATIENCE));
      done(me, libi_member_barrier(me, PATIENCE));
    }
    snprintf(answer, sizeof answer, "%.0f", (now() - began) / (double)times);
    done(me, libi_member_send(me, answer, strlen(answer), PATIENCE));
  }
  done(me, libi_member_finish(me, PATIENCE));
  libi_member_free(me);
  return 0;
}
