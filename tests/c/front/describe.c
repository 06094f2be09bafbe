/* Host lists, distributions, options and layouts: what describes a launch, without one. */

#include "parts.h"

#include "check.h"

static void hosts(void)
{
  libi_hosts *list = libi_hosts_new();
  DONE(list, libi_hosts_parse(list, "node[009-011]:8, root@login:2222:1"), libi_hosts_error);
  CHECK(libi_hosts_count(list) == 4 && libi_hosts_processes(list) == 25);
  SAME("node010", libi_hosts_name(list, 1));
  SAME("", libi_hosts_user(list, 1));
  SAME("root", libi_hosts_user(list, 3));
  CHECK(libi_hosts_port(list, 3) == 2222 && libi_hosts_port(list, 0) == 0);
  CHECK(libi_hosts_slots(list, 0) == 8 && libi_hosts_slots(list, 3) == 1);
  CHECK(!libi_hosts_name(list, 4) && !libi_hosts_user(list, 4) && !libi_hosts_slots(list, 4) && !libi_hosts_port(list, 4));
  DONE(list, libi_hosts_add(list, "fe80::1", NULL, 0, 2), libi_hosts_error);
  SAME("node[009-011]:8,root@login:2222:1,[fe80::1]:2", libi_hosts_fold(list));

  GIVES(LIBI_ERR_HOSTS, libi_hosts_parse(list, "ok,node[1-"));
  SAYS("column 8", libi_hosts_error(list));
  SAYS("^", libi_hosts_error(list));
  GIVES(LIBI_ERR_ARGUMENT, libi_hosts_parse(list, "n\xff"));
  GIVES(LIBI_ERR_HOSTS, libi_hosts_add(list, "-oProxyCommand=x", NULL, 0, 1));
  GIVES(LIBI_ERR_HOSTS, libi_hosts_add(list, "n", NULL, 0, 0));
  GIVES(LIBI_ERR_NULL, libi_hosts_add(list, NULL, NULL, 0, 1));
  CHECK(libi_hosts_count(list) == 5);
  DONE(list, libi_hosts_parse_file(list, "a\nb:2 # both\n"), libi_hosts_error);
  CHECK(libi_hosts_count(list) == 7);
  GIVES(LIBI_ERR_HOSTS, libi_hosts_parse_file(list, "a\n]\n"));
  SAYS("line 2", libi_hosts_error(list));
  libi_hosts_free(list);

  list = libi_hosts_new();
  GIVES(LIBI_NONE, libi_hosts_add_job(list));
  setenv("SLURM_JOB_NODELIST", "s[1-3]", 1);
  setenv("SLURM_TASKS_PER_NODE", "2(x3)", 1);
  DONE(list, libi_hosts_add_job(list), libi_hosts_error);
  SAME("s[1-3]:2", libi_hosts_fold(list));
  unsetenv("SLURM_JOB_NODELIST");
  unsetenv("SLURM_TASKS_PER_NODE");
  GIVES(LIBI_ERR_ARGUMENT, libi_hosts_place(list, 7, LIBI_PLACE_BLOCK, 0, false));
  SAYS("7 processes do not fit", libi_hosts_error(list));
  GIVES(LIBI_ERR_ARGUMENT, libi_hosts_place(list, 6, LIBI_PLACE_PLANE, 0, false));
  GIVES(LIBI_ERR_ARGUMENT, libi_hosts_place(list, 6, 99, 0, false));
  DONE(list, libi_hosts_place(list, 5, LIBI_PLACE_CYCLIC, 0, false), libi_hosts_error);
  CHECK(libi_hosts_count(list) == 5);
  SAME("s1", libi_hosts_name(list, 3));
  DONE(list, libi_hosts_place(list, 8, LIBI_PLACE_PLANE, 2, true), libi_hosts_error);
  CHECK(libi_hosts_processes(list) == 8);
  DONE(list, libi_hosts_place(list, 3, LIBI_PLACE_BLOCK, 0, false), libi_hosts_error);
  CHECK(libi_hosts_processes(list) == 3);
  libi_hosts_free(list);

  CHECK(libi_hosts_count(NULL) == 0 && libi_hosts_processes(NULL) == 0 && !libi_hosts_fold(NULL));
  CHECK(!libi_hosts_name(NULL, 0) && !libi_hosts_user(NULL, 0) && !libi_hosts_slots(NULL, 0) && !libi_hosts_port(NULL, 0));
  GIVES(LIBI_ERR_NULL, libi_hosts_add(NULL, "a", NULL, 0, 1));
  GIVES(LIBI_ERR_NULL, libi_hosts_parse(NULL, "a"));
  GIVES(LIBI_ERR_NULL, libi_hosts_parse_file(NULL, "a"));
  GIVES(LIBI_ERR_NULL, libi_hosts_add_job(NULL));
  GIVES(LIBI_ERR_NULL, libi_hosts_place(NULL, 1, 0, 0, false));
  SAME("", libi_hosts_error(NULL));
  libi_hosts_free(NULL);
}

static void distributions(void)
{
  const char *args[] = {"one", "two words", NULL};
  libi_hosts *list = libi_hosts_new();
  libi_distribution *daemon = libi_distribution_new(7, "/bin/true");
  CHECK(libi_distribution_session(daemon) == 7);
  DONE(list, libi_hosts_parse(list, "a,b:2"), libi_hosts_error);
  DONE(daemon, libi_distribution_set_hosts(daemon, list), libi_distribution_error);
  DONE(daemon, libi_distribution_set_host_list(daemon, "c"), libi_distribution_error);
  DONE(daemon, libi_distribution_set_args(daemon, args), libi_distribution_error);
  DONE(daemon, libi_distribution_set_args(daemon, NULL), libi_distribution_error);
  DONE(daemon, libi_distribution_add_arg(daemon, "three"), libi_distribution_error);
  DONE(daemon, libi_distribution_set_env(daemon, "NAME", "value"), libi_distribution_error);
  DONE(daemon, libi_distribution_set_directory(daemon, "/"), libi_distribution_error);
  DONE(daemon, libi_distribution_set_directory(daemon, NULL), libi_distribution_error);
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
  SAME("", libi_distribution_error(NULL));
  libi_distribution_free(NULL);
}

static void options(void)
{
  libi_hosts *some = libi_hosts_new();
  libi_options *how = libi_options_new();
  libi_rule rule;
  DONE(some, libi_hosts_parse(some, "spare[1-2]"), libi_hosts_error);

  DONE(how, libi_options_require(how, 3), libi_options_error);
  DONE(how, libi_options_require_all(how), libi_options_error);
  DONE(how, libi_options_until_up(how), libi_options_error);
  CHECK(libi_options_rule(how, LIBI_RULE_ATTEMPTS) == 65535);
  DONE(how, libi_options_set_spares(how, some), libi_options_error);
  DONE(how, libi_options_set_spares(how, NULL), libi_options_error);
  DONE(how, libi_options_set_here(how, some), libi_options_error);
  DONE(how, libi_options_set_here(how, NULL), libi_options_error);
  GIVES(LIBI_ERR_NULL, libi_options_set_here(NULL, some));
  DONE(how, libi_options_set_deadline(how, 1000), libi_options_error);
  GIVES(LIBI_ERR_ARGUMENT, libi_options_set_deadline(how, LIBI_FOREVER));
  for (rule = LIBI_RULE_GREET; rule <= LIBI_RULE_SILENCE; rule++) {
    CHECK(libi_options_rule(how, rule) > 0);
    DONE(how, libi_options_set_rule(how, rule, 1234), libi_options_error);
    CHECK(libi_options_rule(how, rule) == 1234);
    GIVES(LIBI_ERR_ARGUMENT, libi_options_set_rule(how, rule, 0));
    GIVES(LIBI_ERR_ARGUMENT, libi_options_set_rule(how, rule, -1));
  }
  GIVES(LIBI_ERR_ARGUMENT, libi_options_set_rule(how, LIBI_RULE_ATTEMPTS, 65536));
  GIVES(LIBI_ERR_ARGUMENT, libi_options_set_rule(how, rule, 1));
  CHECK(libi_options_rule(how, rule) == -1 && libi_options_rule(NULL, 0) == -1);
  DONE(how, libi_options_set_cost(how, 7000, 172000), libi_options_error);
  GIVES(LIBI_ERR_ARGUMENT, libi_options_set_cost(how, -1, 0));
  DONE(how, libi_options_set_tree(how, "kary:16"), libi_options_error);
  GIVES(LIBI_ERR_ARGUMENT, libi_options_set_tree(how, "oak"));
  SAYS("there is no tree \"oak\"", libi_options_error(how));
  DONE(how, libi_options_set_input(how, true), libi_options_error);
  DONE(how, libi_options_output_to_files(how, "/nowhere"), libi_options_error);
  DONE(how, libi_options_output_dropped(how), libi_options_error);
  DONE(how, libi_options_output_to_events(how), libi_options_error);
  GIVES(LIBI_ERR_NULL, libi_options_output_to_files(how, NULL));
  DONE(how, libi_options_set_links(how, LIBI_LINKS_DIRECT), libi_options_error);
  DONE(how, libi_options_set_links(how, LIBI_LINKS_CHANNEL), libi_options_error);
  DONE(how, libi_options_set_links(how, LIBI_LINKS_AUTO), libi_options_error);
  GIVES(LIBI_ERR_ARGUMENT, libi_options_set_links(how, 3));
  DONE(how, libi_options_set_encrypted(how, false), libi_options_error);
  DONE(how, libi_options_allow_plain(how, true), libi_options_error);
  DONE(how, libi_options_set_loopback(how, true), libi_options_error);

  DONE(how, libi_options_via_local(how), libi_options_error);
  GIVES(LIBI_ERR_STATE, libi_options_set_program(how, "ssh"));
  GIVES(LIBI_ERR_STATE, libi_options_add_ssh_option(how, "Port=22"));
  SAYS("libi_options_via_", libi_options_error(how));
  DONE(how, libi_options_via_ssh(how), libi_options_error);
  DONE(how, libi_options_set_program(how, "/usr/bin/ssh"), libi_options_error);
  DONE(how, libi_options_set_ssh_fast(how, true), libi_options_error);
  DONE(how, libi_options_set_ssh_config(how, "/dev/null"), libi_options_error);
  DONE(how, libi_options_set_ssh_config(how, NULL), libi_options_error);
  DONE(how, libi_options_add_ssh_option(how, "StrictHostKeyChecking=accept-new"), libi_options_error);
  DONE(how, libi_options_add_ssh_option_for(how, some, "Port=2222"), libi_options_error);
  GIVES(LIBI_ERR_NULL, libi_options_add_ssh_option_for(how, NULL, "Port=2222"));
  DONE(how, libi_options_set_ssh_timeout(how, 5000), libi_options_error);
  GIVES(LIBI_ERR_ARGUMENT, libi_options_set_ssh_timeout(how, 0));
  GIVES(LIBI_ERR_STATE, libi_options_add_shell_arg(how, "-x"));
  DONE(how, libi_options_via_rsh(how, true), libi_options_error);
  DONE(how, libi_options_set_rsh_user(how, "batch"), libi_options_error);
  DONE(how, libi_options_set_rsh_user(how, NULL), libi_options_error);
  DONE(how, libi_options_set_port_option(how, "-p"), libi_options_error);
  DONE(how, libi_options_add_shell_arg(how, "-v"), libi_options_error);
  GIVES(LIBI_ERR_STATE, libi_options_set_user_option(how, "-l"));
  DONE(how, libi_options_via_shell(how, "blaunch"), libi_options_error);
  DONE(how, libi_options_set_program(how, "/usr/bin/blaunch"), libi_options_error);
  DONE(how, libi_options_add_shell_arg(how, "-z"), libi_options_error);
  DONE(how, libi_options_set_user_option(how, NULL), libi_options_error);
  DONE(how, libi_options_set_port_option(how, NULL), libi_options_error);
  GIVES(LIBI_ERR_STATE, libi_options_set_rsh_user(how, "batch"));
  GIVES(LIBI_ERR_NULL, libi_options_via_shell(how, NULL));
  libi_options_free(how);
  libi_hosts_free(some);
}

/* What none of the setters does without options. */
static void no_options(void)
{
  GIVES(LIBI_ERR_NULL, libi_options_require(NULL, 1));
  GIVES(LIBI_ERR_NULL, libi_options_require_all(NULL));
  GIVES(LIBI_ERR_NULL, libi_options_until_up(NULL));
  GIVES(LIBI_ERR_NULL, libi_options_set_spares(NULL, NULL));
  GIVES(LIBI_ERR_NULL, libi_options_set_deadline(NULL, 1));
  GIVES(LIBI_ERR_NULL, libi_options_set_rule(NULL, 0, 1));
  GIVES(LIBI_ERR_NULL, libi_options_set_cost(NULL, 0, 0));
  GIVES(LIBI_ERR_NULL, libi_options_set_tree(NULL, "late"));
  GIVES(LIBI_ERR_NULL, libi_options_set_input(NULL, true));
  GIVES(LIBI_ERR_NULL, libi_options_output_to_events(NULL));
  GIVES(LIBI_ERR_NULL, libi_options_output_to_files(NULL, "x"));
  GIVES(LIBI_ERR_NULL, libi_options_output_dropped(NULL));
  GIVES(LIBI_ERR_NULL, libi_options_set_links(NULL, 0));
  GIVES(LIBI_ERR_NULL, libi_options_set_encrypted(NULL, true));
  GIVES(LIBI_ERR_NULL, libi_options_allow_plain(NULL, true));
  GIVES(LIBI_ERR_NULL, libi_options_set_loopback(NULL, true));
  GIVES(LIBI_ERR_NULL, libi_options_via_local(NULL));
  GIVES(LIBI_ERR_NULL, libi_options_via_ssh(NULL));
  GIVES(LIBI_ERR_NULL, libi_options_via_rsh(NULL, false));
  GIVES(LIBI_ERR_NULL, libi_options_via_shell(NULL, "x"));
  GIVES(LIBI_ERR_NULL, libi_options_set_program(NULL, "x"));
  GIVES(LIBI_ERR_NULL, libi_options_add_shell_arg(NULL, "x"));
  GIVES(LIBI_ERR_NULL, libi_options_set_user_option(NULL, "x"));
  GIVES(LIBI_ERR_NULL, libi_options_set_port_option(NULL, "x"));
  GIVES(LIBI_ERR_NULL, libi_options_set_rsh_user(NULL, "x"));
  GIVES(LIBI_ERR_NULL, libi_options_set_ssh_fast(NULL, true));
  GIVES(LIBI_ERR_NULL, libi_options_set_ssh_config(NULL, "x"));
  GIVES(LIBI_ERR_NULL, libi_options_add_ssh_option(NULL, "x"));
  GIVES(LIBI_ERR_NULL, libi_options_add_ssh_option_for(NULL, NULL, "x"));
  GIVES(LIBI_ERR_NULL, libi_options_set_ssh_timeout(NULL, 1));
  SAME("", libi_options_error(NULL));
  libi_options_free(NULL);
}

static void layouts(void)
{
  libi_front *front;
  const libi_distribution *both[2];
  libi_layout *found[3];
  libi_distribution *one = libi_distribution_new(4, "a"), *two = libi_distribution_new(4, "b");
  both[0] = one;
  both[1] = two;
  DONE(one, libi_distribution_set_host_list(one, "x:2,y:1"), libi_distribution_error);
  DONE(two, libi_distribution_set_host_list(two, "x:3"), libi_distribution_error);
  GIVES(LIBI_OK, libi_front_new(LIBI_PROGRESS_MANUAL, &front));
  DONE(front, libi_front_lay_out(front, both, 2, found, 3), libi_front_error);
  CHECK(found[0] && !found[1] && !found[2]);
  CHECK(libi_layout_session(found[0]) == 4 && libi_layout_size(found[0]) == 6 && libi_layout_hosts(found[0]) == 2);
  SAME("y", libi_layout_host_name(found[0], 1));
  CHECK(libi_layout_host_members(found[0], 0) == 5 && libi_layout_leader(found[0], 1) == 2);
  CHECK(libi_layout_host_of(found[0], 2) == 1 && libi_layout_host_of(found[0], 5) == 0);
  CHECK(libi_layout_distribution_of(found[0], 2) == 0 && libi_layout_distribution_of(found[0], 3) == 1);
  CHECK(!libi_layout_host_name(found[0], 2) && libi_layout_host_members(found[0], 2) == 0);
  CHECK(libi_layout_leader(found[0], 2) == -1 && libi_layout_leader(found[0], SIZE_MAX) == -1);
  CHECK(libi_layout_host_of(found[0], 6) == -1 && libi_layout_distribution_of(found[0], 6) == -1);
  libi_layout_free(found[0]);

  GIVES(LIBI_ERR_LAYOUT, libi_front_lay_out(front, both, 0, found, 3));
  GIVES(LIBI_ERR_NULL, libi_front_lay_out(front, NULL, 2, found, 3));
  GIVES(LIBI_ERR_NULL, libi_front_lay_out(front, both, 2, NULL, 3));
  GIVES(LIBI_ERR_LENGTH, libi_front_lay_out(front, both, 2, found, 0));
  GIVES(LIBI_ERR_NULL, libi_front_lay_out(NULL, both, 2, found, 3));
  both[1] = NULL;
  GIVES(LIBI_ERR_NULL, libi_front_lay_out(front, both, 2, found, 3));
  SAYS("distribution 1", libi_front_error(front));
  CHECK(libi_layout_session(NULL) == 0 && libi_layout_size(NULL) == 0 && libi_layout_hosts(NULL) == 0);
  CHECK(!libi_layout_host_name(NULL, 0) && libi_layout_leader(NULL, 0) == -1 && libi_layout_host_of(NULL, 0) == -1);
  CHECK(libi_layout_host_members(NULL, 0) == 0 && libi_layout_distribution_of(NULL, 0) == -1);
  libi_layout_free(NULL);
  libi_distribution_free(one);
  libi_distribution_free(two);
  libi_front_free(front);
}

void describe(void)
{
  hosts();
  distributions();
  options();
  no_options();
  layouts();
}
