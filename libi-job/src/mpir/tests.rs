use libi_core::ids::Rank;

use super::*;

/// A launcher's memory of some ranges.
#[derive(Default)]
struct Fake {
    ranges: BTreeMap<u64, Vec<u8>>,
}

const AT: Place = Place { table: 0x1000, size: 0x1008 };
const ENTRIES: u64 = 0x10_0000;
const TEXT: u64 = 0x4000_0000;

impl Memory for Fake {
    fn read(&self, address: u64, into: &mut [u8]) -> Result<(), Errno> {
        let (start, range) = self.ranges.range(..=address).next_back().ok_or(Errno::EFAULT)?;
        let from = range.get((address - start) as usize..).ok_or(Errno::EFAULT)?;
        into.copy_from_slice(from.get(..into.len()).ok_or(Errno::EFAULT)?);
        Ok(())
    }
}

impl Fake {
    fn of(entries: &[(&str, &str, i32)]) -> Self {
        let (mut table, mut text) = (Vec::new(), Vec::new());
        for (host, executable, pid) in entries {
            for name in [host, executable] {
                table.extend((TEXT + text.len() as u64).to_ne_bytes());
                text.extend(name.bytes().chain([0]));
            }
            table.extend(i64::from(*pid).to_ne_bytes());
        }
        let mut head = ENTRIES.to_ne_bytes().to_vec();
        head.extend((entries.len() as i64).to_ne_bytes());
        text.resize(text.len().next_multiple_of(PAGE as usize), 0);
        Self { ranges: [(AT.table, head), (ENTRIES, table), (TEXT, text)].into() }
    }

    fn change(mut self, at: u64, bytes: &[u8]) -> Self {
        let (start, range) = self.ranges.range_mut(..=at).next_back().unwrap();
        let from = (at - start) as usize;
        range[from..from + bytes.len()].copy_from_slice(bytes);
        self
    }
}

const TWO: [(&str, &str, i32); 2] = [("n1", "/bin/solver", 10), ("n2", "/bin/solver", 11)];

#[test]
fn a_table_is_read_with_all_its_names() {
    let table = read(&Fake::of(&TWO), AT).unwrap().unwrap();
    assert_eq!(table.hosts(), ["n1", "n2"]);
    let second = table.get(Rank(1)).unwrap();
    assert_eq!((second.host, second.executable.to_string().as_str(), second.pid), ("n2", "/bin/solver", 11));
}

#[test]
fn a_table_of_100_000_processes_is_read_whole() {
    let hosts: Vec<String> = (0..1_000).map(|host| format!("n{host:04}")).collect();
    let entry = |rank: usize| (hosts[rank / 100].as_str(), "/opt/solver", 1 + rank as i32);
    let entries: Vec<_> = (0..100_000).map(entry).collect();
    let table = read(&Fake::of(&entries), AT).unwrap().unwrap();
    assert_eq!((table.len(), table.hosts().len()), (100_000, 1_000));
    assert!(
        table.iter().zip(entries).all(|(process, entry)| (process.host, process.pid) == (entry.0, entry.2))
    );
}

#[test]
fn flaws_are_named() {
    let size = |size: i32| Fake::of(&TWO).change(AT.size, &size.to_ne_bytes());
    let cases = [
        (size(0), Flaw::Empty),
        (size(-1), Flaw::NoSize(-1)),
        (size(MOST_PROCESSES + 1), Flaw::NoSize(MOST_PROCESSES + 1)),
        (size(3), Flaw::NoTable),
        (Fake::of(&TWO).change(AT.table, &[0; 8]), Flaw::NoTable),
        (Fake::of(&TWO).change(AT.table, &[0xff; 8]), Flaw::NoTable),
        (Fake::of(&TWO).change(ENTRIES + 24, &[0; 8]), Flaw::NoMemory(1)),
        (Fake::of(&TWO).change(ENTRIES + 24, &[0xff; 8]), Flaw::NoMemory(1)),
        (Fake::of(&TWO).change(ENTRIES + 16, &[0; 4]), Flaw::NoPid(0, 0)),
        (Fake::of(&TWO).change(TEXT, &[0]), Flaw::NoName(0)),
        (Fake::of(&TWO).change(TEXT, &[0xff]), Flaw::NoName(0)),
        (Fake::of(&[("n1", &"x".repeat(2 * LONGEST_NAME), 1)]), Flaw::NoName(0)),
    ];
    for (memory, flaw) in cases {
        assert_eq!(read(&memory, AT).unwrap().unwrap_err(), flaw);
    }
    assert_eq!(read(&Fake::default(), AT).unwrap_err(), Errno::EFAULT, "the launcher has no such variables");
}

#[test]
fn a_table_counts_once_it_was_read_twice() {
    let whole = || read(&Fake::of(&TWO), AT).unwrap();
    let other = || read(&Fake::of(&TWO[..1]), AT).unwrap();
    let mut readings = Readings::default();
    for reading in [whole(), Err(Flaw::NoTable), whole(), other()] {
        assert_eq!(readings.take(reading), Next::Again);
    }
    assert_eq!(readings.flaw(), Flaw::Changes);
    assert_eq!(readings.take(other()), Next::Known(other().unwrap()));
    assert_eq!(readings.take(Err(Flaw::Empty)), Next::Again);
    assert_eq!(readings.flaw(), Flaw::Empty);
}
