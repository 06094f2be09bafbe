//! A call, from its arrival to its end: who waits for what, in which order, and what the caller
//! gets to see.

use std::ffi::{CStr, CString};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::time::Duration;

use crate::config::{Config, Counted, Per};
use crate::fault::{Fault, LoginFault, Stage};
use crate::line::Call;
use crate::locks::{Locks, as_one_word};
use crate::relay::{Ending, Relay};
use crate::sys::{self, FAILED, Moment};
use crate::{Failure, HOST, failed, say};

/// A call on its way.
pub(crate) struct Attempt<'a> {
    config: &'a Config,
    locks: Option<Locks<'a>>,
    call: Call,
    from: String,
    /// From 1; 0 if attempts are not counted.
    number: u64,
    faults: Vec<&'a Fault>,
    arrived: Moment,
    /// When it began to occupy its launching host, and until when it does.
    turn: Moment,
    free: Moment,
    give_up: Moment,
}

impl<'a> Attempt<'a> {
    pub(crate) fn begin(
        config: &'a Config,
        call: Call,
        from: String,
        arrived: Moment,
    ) -> Result<Self, Failure> {
        let locks = config.locks.as_deref().map(Locks);
        let number = locks.map_or(Ok(0), |locks| locks.attempt(&call.host)).map_err(failed("counting"))?;
        let faults = config.faults(&from, &call.host, number);
        let give_up = arrived + config.lifetime;
        Ok(Self { config, locks, call, from, number, faults, arrived, turn: arrived, free: arrived, give_up })
    }

    /// Goes through the call to its end, and returns the status that it ends with.
    pub(crate) fn carry_out(mut self) -> Result<u8, Failure> {
        self.pass_places()?;
        self.occupy_launcher()?;
        self.connect()
    }

    /// Waits for a place at the launching host, and occupies it.
    fn pass_places(&mut self) -> Result<(), Failure> {
        let (Some((most, cost)), Some(locks)) = (self.config.places, self.locks) else { return Ok(()) };
        let place = locks.await_place("places", &self.from, most).map_err(failed("waiting for a place"))?;
        sys::sleep_until(sys::now() + cost.at(self.fraction("places")));
        drop(place);
        self.turn = sys::now();
        self.free = self.turn;
        Ok(())
    }

    /// Pays SEQ.
    fn occupy_launcher(&mut self) -> Result<(), Failure> {
        let seq = self.config.seq.at(self.fraction("seq"));
        let Some(locks) = self.locks.filter(|_| seq > Duration::ZERO) else { return Ok(()) };
        self.turn = locks.turn(&self.from, self.turn, seq).map_err(failed("taking turns for SEQ"))?;
        self.free = self.turn + seq;
        sys::sleep_until(self.free);
        Ok(())
    }

    /// Connects, if nothing prevents it, and goes on until the call ends.
    fn connect(&self) -> Result<u8, Failure> {
        let Some(places) = self.take_places().map_err(failed("counting calls"))? else {
            self.log("limit")?;
            return Ok(self.refuse(LoginFault::Reset));
        };
        let last = self.faults.last().and_then(|fault| Some((*fault, fault.stage()?)));
        if let Some((fault, Stage::Connecting)) = last {
            return self.end_with(fault);
        }
        let (mut slowness, mut delay) = (1.0, Duration::ZERO);
        for fault in &self.faults {
            match fault {
                Fault::Slow(factor) => slowness *= factor,
                Fault::Delay(more) => delay = delay.saturating_add(*more),
                _ => {}
            }
        }
        let rem = self.config.rem.at(self.fraction("rem"));
        let slow = Duration::try_from_secs_f64(rem.as_secs_f64() * slowness).unwrap_or(Duration::MAX);
        // What the faults add ends with our lifetime; REM alone is never cut short.
        let latest = self.give_up.max(self.turn + rem);
        sys::sleep_until(latest.min(self.turn + slow.saturating_add(delay)));

        let _running: Vec<_> =
            places.into_iter().filter(|(counted, _)| *counted == Counted::Running).collect();
        self.print_banner(last.is_none_or(|(_, stage)| stage == Stage::LoggedIn));
        match last {
            Some((fault, _)) => self.end_with(fault),
            None => self.run_command(),
        }
    }

    /// A place under each limit, or nothing if one of them has none left.
    fn take_places(&self) -> io::Result<Option<Vec<(Counted, File)>>> {
        let mut places = Vec::with_capacity(self.config.limits.len());
        let Some(locks) = self.locks else { return Ok(Some(places)) };
        for (position, limit) in self.config.limits.iter().enumerate() {
            let host = match limit.per {
                Per::Launcher => &self.from,
                Per::Target => &self.call.host,
            };
            let Some(place) = locks.place(&format!("limit{position}"), host, limit.most)? else {
                return Ok(None);
            };
            places.push((limit.counted, place));
        }
        Ok(Some(places))
    }

    /// What is printed before any output of the command.
    fn print_banner(&self, logged_in: bool) {
        let mut stdout = io::stdout().lock();
        for fault in &self.faults {
            // The caller may be gone; the command will find out as well.
            let _ = match fault {
                Fault::Warn(text) => io::stderr().write_all(text),
                Fault::BannerBefore(text) if logged_in => stdout.write_all(text),
                Fault::Garbage(count) if logged_in => {
                    let bytes = self.config.chance.bytes("garbage", &self.call.host, self.number);
                    let count = usize::try_from(*count).unwrap_or(usize::MAX);
                    bytes.take(count).try_for_each(|byte| stdout.write_all(&[byte]))
                }
                _ => Ok(()),
            };
        }
        let _ = stdout.flush();
    }

    /// Ends the call with a fault of those that do.
    fn end_with(&self, fault: &Fault) -> Result<u8, Failure> {
        self.log("")?;
        match fault {
            Fault::Refuse(shell_error) => {
                if let LoginFault::TimedOut(after) = shell_error {
                    self.linger(self.free + *after)?;
                }
                Ok(self.refuse(*shell_error))
            }
            Fault::NotFound => {
                let command = self.call.command.as_deref().unwrap_or_default();
                let word = command.split(|&c| c == b' ').find(|word| !word.is_empty()).unwrap_or_default();
                say(&format!("sh: 1: {}: not found\n", String::from_utf8_lossy(word)));
                Ok(127)
            }
            Fault::Exit { status, after } => {
                self.linger(sys::now() + *after)?;
                Ok(*status)
            }
            _ => {
                self.linger(self.give_up)?;
                Ok(FAILED)
            }
        }
    }

    fn refuse(&self, shell_error: LoginFault) -> u8 {
        say(&shell_error.lines(&self.call).iter().map(|line| format!("{line}\r\n")).collect::<String>());
        FAILED
    }

    /// Waits as long as the caller may be waiting.
    fn linger(&self, until: Moment) -> Result<(), Failure> {
        let (stdin, stdout) = (io::stdin(), io::stdout());
        let streams = [stdin.as_fd(), stdout.as_fd()];
        sys::sleep_unless_abandoned(streams, until.min(self.give_up)).map_err(failed("waiting"))
    }

    fn run_command(&self) -> Result<u8, Failure> {
        self.log("run")?;
        let host = CString::new(self.call.host.as_str()).map_err(io::Error::from);
        host.and_then(|host| sys::set_variable(HOST, &host)).map_err(failed("the environment"))?;
        let command = self.call.command.clone().map(CString::new).transpose().map_err(io::Error::from);
        let command = command.map_err(failed("the command"))?;
        let words: &[&CStr] = match &command {
            Some(command) => &[c"/bin/sh", c"-c", command],
            None => &[c"/bin/sh"],
        };
        let after = self.faults.iter().filter_map(|fault| match fault {
            Fault::BannerAfter(text) => Some(text.as_slice()),
            _ => None,
        });
        let after = after.collect::<Vec<_>>().concat();
        let with_stdin = !self.faults.contains(&&Fault::CloseStdin);
        let endings = self.faults.iter().filter_map(|fault| match fault {
            Fault::Cut(bytes) => Some((*bytes, Ending::Cut)),
            Fault::HangAfter(bytes) => Some((*bytes, Ending::Hang)),
            _ => None,
        });
        let ending = endings.min_by_key(|(bytes, _)| *bytes);
        if ending.is_none() && !self.faults.contains(&&Fault::Relay) {
            return run_with_our_streams(words, with_stdin, &after).map_err(failed("running /bin/sh"));
        }
        let cut = format!("Connection to {} closed by remote host.\r\n", self.call.host);
        let record = self.config.record.as_deref().map(append).transpose()?;
        let relay =
            Relay { with_stdin, record, ending, after: &after, cut: cut.as_bytes(), give_up: self.give_up };
        let ended = relay.run(words).map_err(failed("relaying to /bin/sh"))?;
        Ok(ended.unwrap_or(FAILED))
    }

    /// A number from 0 to 1 that is drawn for this attempt.
    fn fraction(&self, purpose: &str) -> f64 {
        self.config.chance.fraction(purpose, &self.call.host, self.number)
    }

    /// Leaves the line of this call, which ends with these words or with the last fault.
    fn log(&self, end: &str) -> Result<(), Failure> {
        let Some(path) = &self.config.log else { return Ok(()) };
        let names = self.faults.iter().map(|fault| fault.name()).filter(|_| end != "limit");
        let fate: Vec<_> = names.chain(Some(end).filter(|end| !end.is_empty())).collect();
        let line = format!(
            "at={} pid={} from={} host={} attempt={} length={} arrived={} turn={} free={} fate={}\n",
            sys::now().0,
            std::process::id(),
            as_one_word(&self.from),
            as_one_word(&self.call.host),
            self.number,
            self.call.command.as_ref().map_or(0, Vec::len),
            self.arrived.0,
            self.turn.0,
            self.free.0,
            fate.join("+"),
        );
        // One write: lines of other calls do not get in between.
        append(path)?
            .write_all(line.as_bytes())
            .map_err(|error| Failure::Unreadable { path: path.clone(), error })
    }
}

/// Opens a file that several calls append to.
fn append(path: &Path) -> Result<File, Failure> {
    let file = File::options().append(true).create(true).open(path);
    file.map_err(|error| Failure::Unreadable { path: path.to_owned(), error })
}

/// Runs the command with the streams of this program, which keeps none of them that it does not
/// need: who closes its end, caller or command, is noticed by the other.
fn run_with_our_streams(words: &[&CStr], with_stdin: bool, after: &[u8]) -> io::Result<u8> {
    let nothing = if with_stdin { None } else { Some(File::open("/dev/null")?) };
    let pid = sys::spawn(words, [nothing.as_ref().map(AsFd::as_fd), None, None])?;
    let stdin = sys::take(io::stdin())?;
    if !with_stdin {
        sys::stop_reading(stdin.as_fd());
    }
    drop((stdin, sys::take(io::stderr())?));
    let stdout = Some(sys::take(io::stdout())?).filter(|_| !after.is_empty());
    let status = sys::wait(pid)?;
    if let Some(mut stdout) = stdout {
        let _ = stdout.write_all(after); // the caller may be gone
    }
    Ok(status)
}
