# The doctor's probe: describes its host, then executes commands from standard input, line by line.
#
# It is passed as one line inside single quotes through any login shell: comments are removed and the
# lines are joined by blanks. So it contains no single quote, no backslash and no exclamation mark, and
# each line ends where a blank may follow. It ends at the end of its input. A connection attempt may
# outlive it by at most two seconds.
set -f;
echo; echo libi-doctor 1;
echo kernel $(uname -sr);
echo machine $(uname -m);
echo files $(ulimit -n);
echo shell "$SHELL";
if [ -t 0 ]; then echo terminal; fi;
tool=none;
for name in nc perl python3; do
if command -v $name >/dev/null 2>&1; then tool=$name; fi;
done;
if command -v bash >/dev/null 2>&1 && timeout 2 true >/dev/null 2>&1; then tool=bash; fi;
echo tool $tool;
echo ready;
while IFS= read -r line; do
case $line in
"echo "*) echo "$line";;
"clock "*) echo "$line" $(date +%s%N);;
"program "*)
program=${line#program };
case $program in
*/*) if [ -f "$program" ] && [ -x "$program" ]; then echo program yes;
elif [ -e "$program" ]; then echo program no;
else echo program missing; fi;;
*) if command -v "$program" >/dev/null 2>&1; then echo program yes; else echo program missing; fi;;
esac;;
"dial "*)
set -- $line;
( case $tool in
bash) timeout 2 bash -c "echo $5 >/dev/tcp/$3/$4";;
python3) python3 -c "import socket,sys;a=sys.argv;socket.create_connection((a[1],int(a[2])),2).sendall(a[3].encode())" $3 $4 $5;;
perl) perl -MIO::Socket::IP -e "alarm 2;print{IO::Socket::IP->new(PeerHost=>shift,PeerPort=>shift)or exit 1}shift" $3 $4 $5;;
*) echo $5 | nc -w 2 $3 $4;;
esac >/dev/null 2>&1 && echo dialled $2 yes || echo dialled $2 no ) &
;;
wait) wait;;
end) break;;
esac;
done;
exit 0
