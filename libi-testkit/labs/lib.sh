# What the laboratories' scripts share. Sourced with $name set to the laboratory's; then
#
#   $state    is where it keeps everything that it makes. Whatever is in there can be taken down, by whomever.
#   $group    is the group that all users belong to whom it makes: libi-lab-$name
#
# All of it is on the machine as a whole, so there is one laboratory of a kind at a time. Who brings it up sees to that.

state=/var/lib/libi-lab/$name
group=libi-lab-$name
export PATH=$PATH:/usr/sbin:/sbin

fail() {
  echo "$0: $*" >&2
  exit 1
}

[ "$(id -u)" = 0 ] || fail 'only root can set up hosts and users'

# usage: prints the head of the script.
usage() {
  sed -n '2,/^$/s/^# \{0,1\}//p' "$0" >&2
  exit 2
}

# until_true SECONDS COMMAND…: waits for it, and fails if it has not come true by then.
until_true() {
  local deadline=$((SECONDS + $1))
  shift
  until "$@"; do
    [ $SECONDS -lt $deadline ] || return 1
    sleep 0.02
  done
}

# make_user USER SHELL: these users have no password.
make_user() {
  getent group "$group" >/dev/null || groupadd "$group"
  mkdir -p "$state/home/$1"
  # It warns of shells that do not exist, which is what some are for.
  getent passwd "$1" >/dev/null || useradd -M -d "$state/home/$1" -g "$group" -p '*' -s "$2" "$1" 2>/dev/null
  chown "$1:$group" "$state/home/$1"
}

users() {
  getent group "$group" >/dev/null || return 0
  getent passwd | awk -F: -v group="$(getent group "$group" | cut -d: -f3)" '$4 == group { print $1 }'
}

# processes USER: the numbers of all that run as this user. There are no others than those that tests have started.
processes() {
  find /proc -maxdepth 1 -name '[0-9]*' -user "$1" -printf '%f\n' 2>/dev/null || :
}

end_processes() {
  local left
  left=$(processes "$1")
  [ -n "$left" ] || return 0
  # shellcheck disable=SC2086 # numbers
  kill -KILL $left 2>/dev/null || :
  return 1
}

remove_users() {
  local user
  for user in $(users); do
    until_true 10 end_processes "$user" || fail "processes of $user do not end"
    userdel "$user" 2>/dev/null
  done
  ! getent group "$group" >/dev/null || groupdel "$group"
}

# is_running FILE PROGRAM: whether the process whose number is in the file is there, and runs this program.
is_running() {
  [ -s "$1" ] && [ "$(readlink "/proc/$(cat "$1")/exe" | sed 's/ (deleted)$//')" = "$(readlink -f "$2")" ]
}

# end_daemon FILE PROGRAM
end_daemon() {
  ! is_running "$1" "$2" || kill -KILL "$(cat "$1")"
  rm -f "$1"
}

# keys: the key of all servers and that of all users, which are the laboratory's alone.
keys() {
  local key
  for key in host_key key; do
    ssh-keygen -q -t ed25519 -N '' -C "libi-lab $key" -f "$state/$key"
  done
  cp "$state/key.pub" "$state/authorized_keys"
  # The lab's users launch from host to host, and so does root. ssh refuses a key of the one who runs it if others can read it,
  # and this is neither's.
  chown "nobody:$group" "$state/key"
  chmod 640 "$state/key"
}

# server_options: what all servers have in common. Of options that are given twice sshd takes the first.
server_options() {
  cat <<CONFIG
HostKey $state/host_key
AuthorizedKeysFile $state/authorized_keys
AuthenticationMethods publickey
UsePAM no
UseDNS no
PrintMotd no
PrintLastLog no
X11Forwarding no
LoginGraceTime 30
SetEnv LIBI_LAB=$name
LogLevel VERBOSE
CONFIG
}

# client_options USER KNOWN_HOSTS: what a client needs to log in as this user.
client_options() {
  cat <<CONFIG
  User $1
  IdentityFile $state/key
  IdentitiesOnly yes
  UserKnownHostsFile $2
  GlobalKnownHostsFile /dev/null
  StrictHostKeyChecking yes
  UpdateHostKeys no
  BatchMode yes
CONFIG
}

# make_state: another laboratory may remove the directory above it in this moment.
make_state() {
  until_true 10 mkdir -p "$state" 2>/dev/null || fail "$state cannot be made"
}

# remove_state: the last thing that is done.
remove_state() {
  rm -rf "$state"
  rmdir "$(dirname "$state")" 2>/dev/null || :
}
