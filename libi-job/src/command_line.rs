//! Where the program begins on the command line of a launcher.
//!
//! The words before it are options of the launcher and their values, and which options have values depends on
//! the launcher. An option that is not known here is refused: a guess would launch something else. `--` ends
//! the options of all.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

/// The options of a launcher.
struct Grammar {
    /// How it is called.
    names: &'static [&'static str],
    /// Whether `-n4` is `-n 4`, and `--nodes=4` is `--nodes 4`. Otherwise one dash and two are the same.
    is_getopt: bool,
    /// Options without a value, with one, and with two, by name without dashes.
    flags: &'static str,
    one: &'static str,
    two: &'static str,
    /// With these the command line has no program of its own, or several.
    many: &'static str,
}

const GRAMMARS: [Grammar; 3] = [SRUN, OPEN_MPI, HYDRA];

const SRUN: Grammar = Grammar {
    names: &["srun"],
    is_getopt: true,
    flags: "E H I K O Q X Z b h k l s u v V bcast compress contiguous debugger-test disable-status exact exclusive \
            export-file hold ignore-pbs immediate interactive kill-on-bad-exit label mem-bind-verbose no-allocate \
            no-kill no-shell nice overcommit overlap oversubscribe preserve-env propagate pty quiet quit-on-interrupt \
            reboot resv-ports send-libs share spread-job test-only unbuffered use-min-nodes verbose whole",
    one: "A B C D G J L M N S T W c d e i m n o p q r t w x accel-bind account acctg-freq bb bbf begin chdir \
          cluster-constraint clusters comment constraint container container-id core-spec cores-per-socket cpu-bind \
          cpu-freq cpus-per-gpu cpus-per-task deadline delay-boot dependency distribution epilog error exclude export \
          extra-node-info gid gpu-bind gpu-freq gpus gpus-per-node gpus-per-socket gpus-per-task gres gres-flags \
          het-group hint input job-name jobid licenses mail-type mail-user mcs-label mem mem-bind mem-per-cpu \
          mem-per-gpu mincpus mpi msg-timeout network nodefile nodelist nodes ntasks ntasks-per-core ntasks-per-gpu \
          ntasks-per-node ntasks-per-socket open-mode output partition power prefer priority profile prolog qos \
          relative reservation signal slurmd-debug sockets-per-node switches task-epilog task-prolog thread-spec \
          threads threads-per-core time time-min tmp tres-bind tres-per-task uid wait wckey",
    two: "",
    many: "multi-prog",
};

const OPEN_MPI: Grammar = Grammar {
    names: &["mpirun", "mpiexec", "orterun", "prterun", "mpirun.openmpi", "mpiexec.openmpi"],
    is_getopt: false,
    flags: "allow-run-as-root bynode byslot cpu-set-none d debug-daemons debug-daemons-file display-allocation \
            display-devel-map display-map do-not-launch do-not-resolve enable-recovery h index-argv-by-rank \
            leave-session-attached merge-stderr-to-stdout nolocal nooversubscribe novm oversubscribe pernode q quiet \
            report-bindings report-child-jobs-separately show-progress tag-output timestamp-output \
            use-hwthread-cpus use-regexp v verbose version xterm-none",
    one: "H N am bind-to c cpu-set cpus-per-proc cpus-per-rank default-hostfile dvm host hostfile launch-agent \
          machinefile map-by max-restarts max-vm-size n np npernode npersocket output-filename ompi-server path ppr \
          prefix preload-binary-to preload-files rank-by rankfile report-events report-pid report-uri \
          session-dir slot-list stdin timeout tune tv wd wdir x xterm",
    two: "gmca mca omca pmca",
    many: "app debug",
};

const HYDRA: Grammar = Grammar {
    names: &["mpiexec.hydra", "mpirun.mpich", "mpiexec.mpich", "mpiexec", "mpirun"],
    is_getopt: false,
    flags: "disable-auto-cleanup disable-hostname-propagation disable-x enable-x envall envnone genvall genvnone h \
            info l nolocal prepend-rank print-all-exitcodes skip-launch-node v verbose version",
    one: "bind-to demux env-path envlist errfile-pattern f genvlist gpus-per-proc host hostfile hosts iface \
          launcher launcher-exec localhost machinefile map-by membind n nameserver np order-nodes outfile-pattern \
          path pmi-port ppn prepend-pattern profile rmk timeout topolib umask usize wd wdir",
    two: "env genv",
    many: "configfile",
};

/// Why the program was not found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NotFound {
    /// The launcher is not known.
    Launcher,
    /// An option of it is not known.
    Option(String),
    /// With this option there is no program, or there are several.
    Many(String),
    /// There are options alone.
    Program,
}

/// The number of the word with which the program begins. Launchers with the same name are told by their
/// options.
pub(crate) fn program(words: &[OsString]) -> Result<usize, NotFound> {
    let [name, options @ ..] = words else { return Err(NotFound::Launcher) };
    let name = name.as_bytes().rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    let known =
        || GRAMMARS.iter().filter(|grammar| grammar.names.iter().any(|other| other.as_bytes() == name));
    let mut first = Err(NotFound::Launcher);
    for grammar in known() {
        match grammar.program(options) {
            Ok(at) => return Ok(at + 1),
            Err(why) if first == Err(NotFound::Launcher) => first = Err(why),
            Err(_) => {}
        }
    }
    first
}

impl Grammar {
    fn program(&self, options: &[OsString]) -> Result<usize, NotFound> {
        let mut at = 0;
        while let Some(word) = options.get(at) {
            if word == OsStr::new("--") {
                return if at + 1 < options.len() { Ok(at + 1) } else { Err(NotFound::Program) };
            }
            if !word.as_bytes().starts_with(b"-") {
                return Ok(at);
            }
            at += 1 + self.values(&word.to_string_lossy())?;
        }
        Err(NotFound::Program)
    }

    /// How many of the next words are values of an option.
    fn values(&self, word: &str) -> Result<usize, NotFound> {
        let has = |list: &str, name: &str| list.split_whitespace().any(|other| other == name);
        let is_long = word.starts_with("--");
        let name = word.trim_start_matches('-');
        let (name, is_joined) = match name.split_once('=') {
            Some((name, _)) if is_long || !self.is_getopt => (name, true),
            _ => (name, false),
        };
        let unknown = || NotFound::Option(word.to_owned());
        if has(self.many, name) {
            return Err(NotFound::Many(word.to_owned()));
        }
        if self.is_getopt && !is_long {
            // Flags may be in one word, and the last one may have its value there.
            for (nth, letter) in name.char_indices() {
                let letter = letter.to_string();
                if has(self.one, &letter) {
                    return Ok(usize::from(nth + letter.len() == name.len()));
                }
                if !has(self.flags, &letter) {
                    return Err(unknown());
                }
                // The value of these is optional, and never the next word.
                if ["I", "K"].contains(&&*letter) {
                    return Ok(0);
                }
            }
            return if name.is_empty() { Err(unknown()) } else { Ok(0) };
        }
        match () {
            () if is_joined => Ok(0),
            () if has(self.flags, name) => Ok(0),
            () if has(self.one, name) => Ok(1),
            () if has(self.two, name) => Ok(2),
            () => Err(unknown()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What begins the program of a command line.
    fn found(line: &str) -> Result<String, NotFound> {
        let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        program(&words).map(|at| words[at].to_str().unwrap().to_owned())
    }

    #[test]
    fn the_program_is_the_first_word_that_belongs_to_no_option() {
        for line in [
            "srun prog -n 4",
            "/usr/bin/srun -n 4 -N2 -lO --nodelist=n[1-2] --partition debug --exclusive prog -x",
            "srun -vvvn4 -K --kill-on-bad-exit -I5 --mpi=pmi2 -w n1 -- prog",
            "mpirun -np 4 --oversubscribe --mca btl self,tcp -x PATH -host n1,n2 prog",
            "mpirun --host=n1 -wdir /tmp -gmca a b prog",
            "mpiexec -n 4 -ppn 2 -hosts n1,n2 -env A b -genvall -launcher ssh prog",
            "mpiexec.hydra -np 2 -l prog -np 3",
        ] {
            assert_eq!(found(line).as_deref(), Ok("prog"), "{line}");
        }
    }

    #[test]
    fn what_is_not_known_is_not_guessed() {
        let option = |word: &str| Err(NotFound::Option(word.to_owned()));
        assert_eq!(found("srun --no-such-thing prog"), option("--no-such-thing"));
        assert_eq!(found("srun -nl5 --y prog"), option("--y"));
        assert_eq!(found("srun -l- prog"), option("-l-"));
        assert_eq!(found("mpirun -no-such 4 prog"), option("-no-such"));
        assert_eq!(found("srun --multi-prog file"), Err(NotFound::Many("--multi-prog".to_owned())));
        assert_eq!(found("mpiexec.hydra -configfile f"), Err(NotFound::Many("-configfile".to_owned())));
        assert_eq!(found("aprun -n 4 prog"), Err(NotFound::Launcher));
        for line in ["srun", "srun -n 4", "srun -n", "mpirun -np 4 --"] {
            assert_eq!(found(line), Err(NotFound::Program), "{line}");
        }
    }
}
