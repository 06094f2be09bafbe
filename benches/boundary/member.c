/* The member in C of the benchmark in main.rs; it does what the member in Rust there does. */
#include <libi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define TIMEOUT 60000

static void done(libi_result result)
{
  if (result != LIBI_OK) {
    fprintf(stderr, "%s\n", libi_last_error());
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
  done(libi_member_init(LIBI_PROGRESS_THREAD, &me));
  if (argc > 1) { /* it only has to join */
    done(libi_member_drain(me, TIMEOUT));
    libi_member_free(me);
    return 0;
  }
  for (;;) { /* orders are "barrier N" and "broadcast N", until an empty one comes */
    memset(order, 0, sizeof order);
    if (libi_member_is_master(me)) {
      libi_data *data;
      done(libi_member_recv(me, &data, TIMEOUT));
      memcpy(order, libi_data_bytes(data, 0), libi_data_length(data, 0));
      libi_data_free(data);
    }
    done(libi_member_broadcast_into(me, 0, order, sizeof order, TIMEOUT));
    if (!order[0]) break;
    times = atol(strchr(order, ' '));
    began = now();
    if (!strncmp(order, "barrier", 7)) {
      for (at = 0; at < times; at++) done(libi_member_barrier(me, TIMEOUT));
    } else {
      for (at = 0; at < times; at++) done(libi_member_broadcast_into(me, 0, bytes, sizeof bytes, TIMEOUT));
      done(libi_member_barrier(me, TIMEOUT));
    }
    snprintf(answer, sizeof answer, "%.0f", (now() - began) / (double)times);
    if (libi_member_is_master(me)) done(libi_member_send(me, answer, strlen(answer), TIMEOUT));
  }
  done(libi_member_drain(me, TIMEOUT));
  libi_member_free(me);
  return 0;
}
