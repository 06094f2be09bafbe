/* Host lists, distributions, options and layouts, without a launch. */

#include "parts.h"

#include "check.h"

static void hosts(void)
{
  libi_hosts_entry_info entry;
  libi_hosts *list = libi_hosts_new();
  DONE(libi_hosts_add_list(list, "node[009-011]:8, root@login:2222:1"));
  CHECK(libi_hosts_count(list) == 4 && libi_hosts_processes(list) == 25);
  DONE(libi_hosts_entry(list, 1, &entry, sizeof entry));
  SAME("node010", entry.name);
  SAME("", entry.user);
  CHECK(entry.port == 0 && entry.processes == 8);
  DONE(libi_hosts_entry(list, 3, &entry, sizeof entry));
  SAME("root", entry.user);
  CHECK(entry.port == 2222 && entry.processes == 1);
  GIVES(LIBI_NONE, libi_hosts_entry(list, 4, &entry, sizeof entry));
  CHECK(!entry.name && !entry.user && !entry.processes && !entry.port);
  GIVES(LIBI_ERR_NULL, libi_hosts_entry(list, 0, NULL, sizeof entry));
  GIVES(LIBI_ERR_ARGUMENT, libi_hosts_entry(list, 0, &entry, 0));
  /* A program that was compiled with a smaller struct. */
  memset(&entry, 9, sizeof entry);
  DONE(libi_hosts_entry(list, 0, &entry, sizeof entry.name));
  SAME("node009", entry.name);
  CHECK(entry.processes == 0x09090909);
  DONE(libi_hosts_add_host(list, "fe80::1", NULL, 0, 2));
  SAME("node[009-011]:8,root@login:2222:1,[fe80::1]:2", libi_hosts_fold(list));

  GIVES(LIBI_ERR_HOSTS, libi_hosts_add_list(list, "ok,node[1-"));
  SAYS("column 8", libi_last_error());
  SAYS("^", libi_last_error());
  GIVES(LIBI_ERR_ARGUMENT, libi_hosts_add_list(list, "n\xff"));
  GIVES(LIBI_ERR_HOSTS, libi_hosts_add_host(list, "-oProxyCommand=x", NULL, 0, 1));
  GIVES(LIBI_ERR_HOSTS, libi_hosts_add_host(list, "n", NULL, 0, 0));
  GIVES(LIBI_ERR_NULL, libi_hosts_add_host(list, NULL, NULL, 0, 1));
  CHECK(libi_hosts_count(list) == 5);
  DONE(libi_hosts_add_file_text(list, "a\nb:2 # both\n"));
  CHECK(libi_hosts_count(list) == 7);
  GIVES(LIBI_ERR_HOSTS, libi_hosts_add_file_text(list, "a\n]\n"));
  SAYS("line 2", libi_last_error());
  libi_hosts_free(list);

  list = libi_hosts_new();
  GIVES(LIBI_NONE, libi_hosts_add_job(list));
  setenv("SLURM_JOB_NODELIST", "s[1-3]", 1);
  setenv("SLURM_TASKS_PER_NODE", "2(x3)", 1);
  DONE(libi_hosts_add_job(list));
  SAME("s[1-3]:2", libi_hosts_fold(list));
  unsetenv("SLURM_JOB_NODELIST");
  unsetenv("SLURM_TASKS_PER_NODE");
  GIVES(LIBI_ERR_ARGUMENT, libi_hosts_place(list, 7, LIBI_PLACE_BLOCK, 0, false));
  SAYS("7 processes do not fit", libi_last_error());
  GIVES(LIBI_ERR_ARGUMENT, libi_hosts_place(list, 6, LIBI_PLACE_PLANE, 0, false));
  GIVES(LIBI_ERR_ARGUMENT, libi_hosts_place(list, 6, (libi_placement)99, 0, false));
  SAYS("99 is not a libi_placement", libi_last_error());
  DONE(libi_hosts_place(list, 5, LIBI_PLACE_CYCLIC, 0, false));
  CHECK(libi_hosts_count(list) == 5);
  DONE(libi_hosts_entry(list, 3, &entry, sizeof entry));
  SAME("s1", entry.name);
  DONE(libi_hosts_place(list, 8, LIBI_PLACE_PLANE, 2, true));
  CHECK(libi_hosts_processes(list) == 8);
  DONE(libi_hosts_place(list, 3, LIBI_PLACE_BLOCK, 0, false));
  CHECK(libi_hosts_processes(list) == 3);
  libi_hosts_free(list);

  CHECK(libi_hosts_count(NULL) == 0 && libi_hosts_processes(NULL) == 0 && !libi_hosts_fold(NULL));
  GIVES(LIBI_ERR_NULL, libi_hosts_entry(NULL, 0, &entry, sizeof entry));
  CHECK(!entry.name);
  GIVES(LIBI_ERR_NULL, libi_hosts_add_host(NULL, "a", NULL, 0, 1));
  SAYS("host list is NULL", libi_last_error());
  GIVES(LIBI_ERR_NULL, libi_hosts_add_list(NULL, "a"));
  GIVES(LIBI_ERR_NULL, libi_hosts_add_file_text(NULL, "a"));
  GIVES(LIBI_ERR_NULL, libi_hosts_add_job(NULL));
  GIVES(LIBI_ERR_NULL, libi_hosts_place(NULL, 1, LIBI_PLACE_BLOCK, 0, false));
  libi_hosts_free(NULL);
}

static void distributions(void)
{
  const char *args[] = {"one", "two words", NULL};
  libi_hosts *list = libi_hosts_new();
  libi_distribution *daemon = libi_distribution_new(7, "/bin/true");
  CHECK(libi_distribution_session(daemon) == 7);
  DONE(libi_hosts_add_list(list, "a,b:2"));
  DONE(libi_distribution_set_hosts(daemon, list));
  DONE(libi_distribution_set_host_list(daemon, "c"));
  DONE(libi_distribution_set_args(daemon, args));
  DONE(libi_distribution_set_args(daemon, NULL));
  DONE(libi_distribution_add_arg(daemon, "three"));
  DONE(libi_distribution_set_env(daemon, "NAME", "value"));
  DONE(libi_distribution_set_directory(daemon, "/"));
  DONE(libi_distribution_set_directory(daemon, NULL));
  GIVES(LIBI_ERR_ARGUMENT, libi_distribution_set_env(daemon, "", "value"));
  GIVES(LIBI_ERR_ARGUMENT, libi_distribution_set_env(daemon, "A=B", "value"));
  GIVES(LIBI_ERR_HOSTS, libi_distribution_set_host_list(daemon, "a b["));
  GIVES(LIBI_ERR_NULL, libi_distribution_set_hosts(daemon, NULL));
  GIVES(LIBI_ERR_NULL, libi_distribution_add_arg(daemon, NULL));
  GIVES(LIBI_ERR_NULL, libi_distribution_set_env(daemon, "NAME", NULL));
  GIVES(LIBI_ERR_HANDLE, libi_distribution_add_arg((libi_distribution *)(void *)list, "x"));
  GIVES(LIBI_ERR_HANDLE, libi_distribution_set_hosts(daemon, (libi_hosts *)(void *)daemon));
  libi_distribution_free(daemon);
  GIVES(LIBI_ERR_NULL, libi_distribution_set_hosts(NULL, list));
  libi_hosts_free(list);

  CHECK(!libi_distribution_new(0, NULL) && libi_distribution_session(NULL) == 0);
  GIVES(LIBI_ERR_NULL, libi_distribution_set_host_list(NULL, "a"));
  GIVES(LIBI_ERR_NULL, libi_distribution_set_args(NULL, args));
  GIVES(LIBI_ERR_NULL, libi_distribution_add_arg(NULL, "x"));
  GIVES(LIBI_ERR_NULL, libi_distribution_set_directory(NULL, "/"));
  GIVES(LIBI_ERR_NULL, libi_distribution_set_env(NULL, "A", "b"));
  libi_distribution_free(NULL);
}

static void options(void)
{
  libi_hosts *some = libi_hosts_new();
  libi_options *how = libi_options_new();
  int rule;
  DONE(libi_hosts_add_list(some, "spare[1-2]"));

  DONE(libi_options_set_min_hosts(how, 3));
  DONE(libi_options_set_min_hosts(how, 0));
  DONE(libi_options_set_spares(how, some));
  DONE(libi_options_set_spares(how, NULL));
  DONE(libi_options_set_local_hosts(how, some));
  DONE(libi_options_set_local_hosts(how, NULL));
  GIVES(LIBI_ERR_NULL, libi_options_set_local_hosts(NULL, some));
  DONE(libi_options_set_settle(how, LIBI_FOREVER));
  DONE(libi_options_set_settle(how, 500));
  GIVES(LIBI_ERR_NULL, libi_options_set_settle(NULL, 500));
  DONE(libi_options_set_deadline(how, 1000));
  GIVES(LIBI_ERR_ARGUMENT, libi_options_set_deadline(how, LIBI_FOREVER));
  for (rule = LIBI_RULE_HELLO_TIMEOUT; rule <= LIBI_RULE_PEER_TIMEOUT; rule++) {
    CHECK(libi_options_rule(how, (libi_rule)rule) > 0);
    DONE(libi_options_set_rule(how, (libi_rule)rule, 1234));
    CHECK(libi_options_rule(how, (libi_rule)rule) == 1234);
    GIVES(LIBI_ERR_ARGUMENT, libi_options_set_rule(how, (libi_rule)rule, 0));
    GIVES(LIBI_ERR_ARGUMENT, libi_options_set_rule(how, (libi_rule)rule, -1));
  }
  GIVES(LIBI_ERR_ARGUMENT, libi_options_set_rule(how, LIBI_RULE_ATTEMPTS, 65536));
  GIVES(LIBI_ERR_ARGUMENT, libi_options_set_rule(how, (libi_rule)rule, 1));
  GIVES(LIBI_ERR_ARGUMENT, libi_options_set_rule(how, (libi_rule)-1, 1));
  CHECK(libi_options_rule(how, (libi_rule)rule) == -1 && libi_options_rule(NULL, LIBI_RULE_ATTEMPTS) == -1);
  DONE(libi_options_set_cost(how, 7000, 172000));
  GIVES(LIBI_ERR_ARGUMENT, libi_options_set_cost(how, -1, 0));
  DONE(libi_options_set_strategy(how, "kary:16"));
  GIVES(LIBI_ERR_ARGUMENT, libi_options_set_strategy(how, "oak"));
  SAYS("there is no tree \"oak\"", libi_last_error());
  DONE(libi_options_set_front_end_launches(how, 8));
  GIVES(LIBI_ERR_ARGUMENT, libi_options_set_front_end_launches(how, 0));
  SAYS("0 launches", libi_last_error());
  DONE(libi_options_set_input(how, true));
  DONE(libi_options_set_input_to_all(how));
  DONE(libi_options_set_output(how, LIBI_OUTPUT_FILES, "/nowhere"));
  DONE(libi_options_set_output(how, LIBI_OUTPUT_DISCARD, NULL));
  DONE(libi_options_set_output(how, LIBI_OUTPUT_EVENTS, NULL));
  GIVES(LIBI_ERR_NULL, libi_options_set_output(how, LIBI_OUTPUT_FILES, NULL));
  GIVES(LIBI_ERR_ARGUMENT, libi_options_set_output(how, (libi_output)3, "/nowhere"));
  DONE(libi_options_set_links(how, LIBI_LINKS_DIRECT));
  DONE(libi_options_set_links(how, LIBI_LINKS_CHANNEL));
  DONE(libi_options_set_links(how, LIBI_LINKS_AUTO));
  GIVES(LIBI_ERR_ARGUMENT, libi_options_set_links(how, (libi_links)3));
  DONE(libi_options_set_encrypted(how, false));
  DONE(libi_options_set_allow_plain(how, true));
  DONE(libi_options_set_front_end_limits(how, true));
  DONE(libi_options_set_loopback(how, true));
  DONE(libi_options_set_strict_calls(how, true));
  DONE(libi_options_set_on_loss(how, LIBI_ON_LOSS_END));
  DONE(libi_options_set_on_loss(how, LIBI_ON_LOSS_CONTINUE));
  DONE(libi_options_set_on_loss(how, LIBI_ON_LOSS_FAIL));
  GIVES(LIBI_ERR_ARGUMENT, libi_options_set_on_loss(how, (libi_on_loss)3));

  DONE(libi_options_set_engine(how, LIBI_ENGINE_APART));
  DONE(libi_options_set_engine(how, LIBI_ENGINE_IN_PROGRAM));
  GIVES(LIBI_ERR_ARGUMENT, libi_options_set_engine(how, (libi_engine)2));
  libi_agent_serve_if_asked(); /* this process is none */
  GIVES(LIBI_ERR_STATE, libi_options_set_agent_file(how, "/proc/self/exe"));
  SAYS("libi_options_set_agent()", libi_last_error());
  DONE(libi_options_set_agent(how, "/usr/bin/libi"));
  DONE(libi_options_set_agent_file(how, "/proc/self/exe"));
  GIVES(LIBI_ERR_ARGUMENT, libi_options_set_agent_file(how, "/no/such/file"));
  SAYS("/no/such/file: No such file", libi_last_error());
  DONE(libi_options_set_agent_file(how, NULL));
  DONE(libi_options_set_any_programs(how, true));
  DONE(libi_options_set_any_programs(how, false));
  GIVES(LIBI_ERR_STATE, libi_options_stage_libraries(how));
  GIVES(LIBI_ERR_STATE, libi_options_keep_staged(how));
  SAYS("libi_options_stage()", libi_last_error());
  GIVES(LIBI_ERR_ARGUMENT, libi_options_stage(how, "/no/such/file"));
  SAYS("cannot read /no/such/file: No such file", libi_last_error());
  DONE(libi_options_stage(how, "/bin/sh"));
  DONE(libi_options_stage_libraries(how));
  DONE(libi_options_keep_staged(how));
  DONE(libi_options_stage(how, NULL));
  DONE(libi_options_set_agent(how, NULL));

  DONE(libi_options_set_backend(how, LIBI_BACKEND_LOCAL, NULL));
  DONE(libi_options_set_backend(how, LIBI_BACKEND_AUTO, NULL));
  GIVES(LIBI_ERR_ARGUMENT, libi_options_set_backend(how, (libi_backend)99, NULL));
  GIVES(LIBI_ERR_STATE, libi_options_add_ssh_option(how, NULL, "Port=22"));
  SAYS("libi_options_set_backend", libi_last_error());
  DONE(libi_options_set_backend(how, LIBI_BACKEND_SSH, NULL));
  DONE(libi_options_set_backend(how, LIBI_BACKEND_SSH, "/usr/bin/ssh"));
  DONE(libi_options_set_ssh_fast(how, true));
  DONE(libi_options_set_ssh_client(how, "openssh"));
  GIVES(LIBI_ERR_ARGUMENT, libi_options_set_ssh_client(how, "putty"));
  DONE(libi_options_set_ssh_config(how, "/dev/null"));
  DONE(libi_options_set_ssh_config(how, NULL));
  DONE(libi_options_add_ssh_option(how, NULL, "StrictHostKeyChecking=accept-new"));
  DONE(libi_options_add_ssh_option(how, some, "Port=2222"));
  GIVES(LIBI_ERR_NULL, libi_options_add_ssh_option(how, some, NULL));
  DONE(libi_options_set_ssh_connect_timeout(how, 5000));
  GIVES(LIBI_ERR_ARGUMENT, libi_options_set_ssh_connect_timeout(how, 0));
  GIVES(LIBI_ERR_STATE, libi_options_add_shell_arg(how, "-x"));
  DONE(libi_options_set_backend(how, LIBI_BACKEND_RSH_REDONE, NULL));
  DONE(libi_options_set_rsh_user(how, "batch"));
  DONE(libi_options_set_rsh_user(how, NULL));
  DONE(libi_options_set_shell_port_option(how, "-p"));
  DONE(libi_options_add_shell_arg(how, "-v"));
  GIVES(LIBI_ERR_STATE, libi_options_set_shell_user_option(how, "-l"));
  DONE(libi_options_set_backend(how, LIBI_BACKEND_STARTER, NULL));
  DONE(libi_options_add_shell_arg(how, "-q"));
  GIVES(LIBI_ERR_STATE, libi_options_set_queue_timeout(how, 5000));
  DONE(libi_options_set_backend(how, LIBI_BACKEND_SRUN, "/usr/bin/srun"));
  DONE(libi_options_add_shell_arg(how, "--partition=debug"));
  DONE(libi_options_set_queue_timeout(how, 5000));
  GIVES(LIBI_ERR_ARGUMENT, libi_options_set_queue_timeout(how, 0));
  DONE(libi_options_set_backend(how, LIBI_BACKEND_SHELL, "blaunch"));
  DONE(libi_options_add_shell_arg(how, "-z"));
  DONE(libi_options_set_shell_user_option(how, NULL));
  DONE(libi_options_set_shell_port_option(how, NULL));
  GIVES(LIBI_ERR_STATE, libi_options_set_rsh_user(how, "batch"));
  GIVES(LIBI_ERR_NULL, libi_options_set_backend(how, LIBI_BACKEND_SHELL, NULL));
  libi_options_free(how);
  libi_hosts_free(some);
}

/* What none of the setters does without options. */
static void no_options(void)
{
  GIVES(LIBI_ERR_NULL, libi_options_set_min_hosts(NULL, 1));
  GIVES(LIBI_ERR_NULL, libi_options_set_min_hosts(NULL, 0));
  GIVES(LIBI_ERR_NULL, libi_options_set_spares(NULL, NULL));
  GIVES(LIBI_ERR_NULL, libi_options_set_deadline(NULL, 1));
  GIVES(LIBI_ERR_NULL, libi_options_set_rule(NULL, LIBI_RULE_ATTEMPTS, 1));
  GIVES(LIBI_ERR_NULL, libi_options_set_cost(NULL, 0, 0));
  GIVES(LIBI_ERR_NULL, libi_options_set_strategy(NULL, "late"));
  GIVES(LIBI_ERR_NULL, libi_options_set_front_end_launches(NULL, 1));
  GIVES(LIBI_ERR_NULL, libi_options_set_input(NULL, true));
  GIVES(LIBI_ERR_NULL, libi_options_set_input_to_all(NULL));
  GIVES(LIBI_ERR_NULL, libi_options_set_output(NULL, LIBI_OUTPUT_EVENTS, NULL));
  GIVES(LIBI_ERR_NULL, libi_options_set_output(NULL, LIBI_OUTPUT_FILES, "x"));
  GIVES(LIBI_ERR_NULL, libi_options_set_output(NULL, LIBI_OUTPUT_DISCARD, NULL));
  GIVES(LIBI_ERR_NULL, libi_options_set_links(NULL, LIBI_LINKS_AUTO));
  GIVES(LIBI_ERR_NULL, libi_options_set_encrypted(NULL, true));
  GIVES(LIBI_ERR_NULL, libi_options_set_allow_plain(NULL, true));
  GIVES(LIBI_ERR_NULL, libi_options_set_front_end_limits(NULL, true));
  GIVES(LIBI_ERR_NULL, libi_options_set_loopback(NULL, true));
  GIVES(LIBI_ERR_NULL, libi_options_set_strict_calls(NULL, true));
  GIVES(LIBI_ERR_NULL, libi_options_set_on_loss(NULL, LIBI_ON_LOSS_END));
  GIVES(LIBI_ERR_NULL, libi_options_set_engine(NULL, LIBI_ENGINE_APART));
  GIVES(LIBI_ERR_NULL, libi_options_set_agent(NULL, "x"));
  GIVES(LIBI_ERR_NULL, libi_options_set_agent_file(NULL, "x"));
  GIVES(LIBI_ERR_NULL, libi_options_set_any_programs(NULL, true));
  GIVES(LIBI_ERR_NULL, libi_options_stage(NULL, "x"));
  GIVES(LIBI_ERR_NULL, libi_options_stage_libraries(NULL));
  GIVES(LIBI_ERR_NULL, libi_options_keep_staged(NULL));
  GIVES(LIBI_ERR_NULL, libi_options_set_backend(NULL, LIBI_BACKEND_LOCAL, NULL));
  GIVES(LIBI_ERR_NULL, libi_options_set_backend(NULL, LIBI_BACKEND_SSH, NULL));
  GIVES(LIBI_ERR_NULL, libi_options_set_backend(NULL, LIBI_BACKEND_RSH, NULL));
  GIVES(LIBI_ERR_NULL, libi_options_set_backend(NULL, LIBI_BACKEND_SHELL, "x"));
  GIVES(LIBI_ERR_NULL, libi_options_add_shell_arg(NULL, "x"));
  GIVES(LIBI_ERR_NULL, libi_options_set_shell_user_option(NULL, "x"));
  GIVES(LIBI_ERR_NULL, libi_options_set_shell_port_option(NULL, "x"));
  GIVES(LIBI_ERR_NULL, libi_options_set_rsh_user(NULL, "x"));
  GIVES(LIBI_ERR_NULL, libi_options_set_ssh_fast(NULL, true));
  GIVES(LIBI_ERR_NULL, libi_options_set_ssh_client(NULL, "auto"));
  GIVES(LIBI_ERR_NULL, libi_options_set_ssh_config(NULL, "x"));
  GIVES(LIBI_ERR_NULL, libi_options_add_ssh_option(NULL, NULL, "x"));
  GIVES(LIBI_ERR_NULL, libi_options_add_ssh_option(NULL, NULL, "x"));
  GIVES(LIBI_ERR_NULL, libi_options_set_ssh_connect_timeout(NULL, 1));
  GIVES(LIBI_ERR_NULL, libi_options_set_queue_timeout(NULL, 1));
  libi_options_free(NULL);
}

static void layouts(void)
{
  const libi_distribution *both[2];
  libi_layout *found[3];
  libi_layout_info info;
  libi_layout_host_info host;
  libi_layout_rank_info rank;
  libi_distribution *one = libi_distribution_new(4, "a"), *two = libi_distribution_new(4, "b");
  both[0] = one;
  both[1] = two;
  DONE(libi_distribution_set_host_list(one, "x:2,y:1"));
  DONE(libi_distribution_set_host_list(two, "x:3"));
  DONE(libi_layout_new(both, 2, found, 3));
  CHECK(found[0] && !found[1] && !found[2]);
  DONE(libi_layout_query(found[0], &info, sizeof info));
  CHECK(info.session == 4 && info.size == 6 && info.hosts == 2);
  DONE(libi_layout_host(found[0], 0, &host, sizeof host));
  CHECK(host.members == 5 && host.leader == 0);
  DONE(libi_layout_host(found[0], 1, &host, sizeof host));
  SAME("y", host.name);
  CHECK(host.members == 1 && host.leader == 2);
  GIVES(LIBI_NONE, libi_layout_host(found[0], 2, &host, sizeof host));
  GIVES(LIBI_NONE, libi_layout_host(found[0], UINT32_MAX, &host, sizeof host));
  CHECK(!host.name && !host.members);
  DONE(libi_layout_rank(found[0], 2, &rank, sizeof rank));
  CHECK(rank.host == 1 && rank.distribution == 0);
  DONE(libi_layout_rank(found[0], 3, &rank, sizeof rank));
  CHECK(rank.host == 0 && rank.distribution == 1);
  GIVES(LIBI_NONE, libi_layout_rank(found[0], 6, &rank, sizeof rank));
  libi_layout_free(found[0]);

  GIVES(LIBI_ERR_LAYOUT, libi_layout_new(both, 0, found, 3));
  GIVES(LIBI_ERR_NULL, libi_layout_new(NULL, 2, found, 3));
  GIVES(LIBI_ERR_NULL, libi_layout_new(both, 2, NULL, 3));
  GIVES(LIBI_ERR_LENGTH, libi_layout_new(both, 2, found, 0));
  both[1] = NULL;
  GIVES(LIBI_ERR_NULL, libi_layout_new(both, 2, found, 3));
  SAYS("distribution 1", libi_last_error());
  GIVES(LIBI_ERR_NULL, libi_layout_query(NULL, &info, sizeof info));
  GIVES(LIBI_ERR_NULL, libi_layout_host(NULL, 0, &host, sizeof host));
  GIVES(LIBI_ERR_NULL, libi_layout_rank(NULL, 0, &rank, sizeof rank));
  libi_layout_free(NULL);
  libi_distribution_free(one);
  libi_distribution_free(two);
}

/* A failure of a setter whose code is not looked at. */
static void failures_that_stick(void)
{
  const libi_distribution *all[1];
  libi_layout *found[1];
  libi_front *front;
  libi_session *session;
  libi_hosts *list = libi_hosts_new();
  libi_options *how = libi_options_new();
  libi_distribution *one = libi_distribution_new(1, "/bin/true");
  all[0] = one;
  libi_distribution_set_host_list(one, "here[1-2:2");
  libi_distribution_set_env(one, "", "x");
  libi_distribution_set_host_list(one, "here1");
  GIVES(LIBI_ERR_HOSTS, libi_layout_new(all, 1, found, 1)); /* the first one */
  SAYS("distribution 0: an earlier call has failed", libi_last_error());
  SAYS("column 9", libi_last_error());
  GIVES(LIBI_OK, libi_front_new(LIBI_PROGRESS_THREAD, &front));
  GIVES(LIBI_ERR_HOSTS, libi_front_launch(front, all, 1, NULL, &session, 1));
  CHECK(!session);
  GIVES(LIBI_ERR_HOSTS, libi_front_start(front, all, 1, NULL, &session, 1));
  libi_distribution_free(one);

  all[0] = one = libi_distribution_new(1, "/bin/true");
  libi_options_set_strategy(how, "oak");
  GIVES(LIBI_ERR_ARGUMENT, libi_front_launch(front, all, 1, how, &session, 1));
  SAYS("the options: an earlier call has failed: there is no tree \"oak\"", libi_last_error());
  libi_options_free(how);

  /* A list that has failed makes what it is given to fail, and that there is no job is no failure. */
  CHECK(libi_hosts_add_job(list) == LIBI_NONE);
  DONE(libi_distribution_set_hosts(one, list));
  libi_hosts_place(list, 7, LIBI_PLACE_BLOCK, 0, false);
  GIVES(LIBI_ERR_ARGUMENT, libi_distribution_set_hosts(one, list));
  GIVES(LIBI_ERR_ARGUMENT, libi_front_launch(front, all, 1, NULL, &session, 1));
  how = libi_options_new();
  GIVES(LIBI_ERR_ARGUMENT, libi_options_set_spares(how, list));
  GIVES(LIBI_ERR_ARGUMENT, libi_options_set_local_hosts(how, list));
  libi_options_free(how);
  libi_hosts_free(list);
  libi_distribution_free(one);
  libi_front_free(front);
}

void describe(void)
{
  hosts();
  distributions();
  options();
  no_options();
  layouts();
  failures_that_stick();
}
