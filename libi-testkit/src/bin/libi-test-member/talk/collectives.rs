//! The calls that all members make together, with the results that each can compute alone.

use libi::{Op, Rank};

use super::{ALL, Talk, Wrong, made, number, same, wait};

impl Talk<'_> {
    pub(super) fn barrier(&self) -> Result<(), Wrong> {
        wait("the barrier", self.member.barrier())
    }

    pub(super) fn broadcast(&self, root: u32, length: u32) -> Result<(), Wrong> {
        let data = (self.rank == root).then(|| self.mine(ALL, length));
        let got = wait("the broadcast", self.member.broadcast(Rank(root), data))?;
        same("what was broadcast", &got, &made(self.nth, root, ALL, length))
    }

    pub(super) fn gather(&self, root: u32, length: u32) -> Result<(), Wrong> {
        let mine = |parts| (self.rank == root).then_some(parts);
        let got = self.member.gather_equal(Rank(root), self.mine(root, length));
        let got = wait("the equal gather", got)?;
        same("what was gathered equally", &got, &mine(self.all_data(root, length, 0)))?;
        let got = self.member.gather(Rank(root), self.mine(root, length + self.rank));
        let got = wait("the gather", got)?;
        same("what was gathered", &got, &mine(self.all_data(root, length, 1)))
    }

    pub(super) fn scatter(&self, root: u32, length: u32) -> Result<(), Wrong> {
        for more in [0, 1] {
            let part = |to: u32| made(self.nth, root, to, length + more * to);
            let parts = (self.rank == root).then(|| (0..self.size).map(part).collect());
            let got = wait("the scatter", self.member.scatter(Rank(root), parts))?;
            same("what was scattered", &got, &part(self.rank))?;
        }
        Ok(())
    }

    pub(super) fn allgather(&self, length: u32) -> Result<(), Wrong> {
        let got = wait("the equal allgather", self.member.allgather_equal(self.mine(ALL, length)))?;
        same("what was gathered equally", &got, &self.all_data(ALL, length, 0))?;
        let got = wait("the allgather", self.member.allgather(self.mine(ALL, length + 2 * self.rank)))?;
        same("what was gathered", &got, &self.all_data(ALL, length, 2))?;
        let text = |rank| format!("rank {rank}, {}", "ü".repeat(rank as usize % 5));
        let got = wait("the allgather of text", self.member.allgather_str(&text(self.rank)))?;
        same("what text was gathered", &got, &(0..self.size).map(text).collect())
    }

    pub(super) fn alltoall(&self, length: u32) -> Result<(), Wrong> {
        let parts = |more: u32| (0..self.size).map(|to| self.mine(to, length + more * to)).collect();
        let got = wait("the equal exchange", self.member.alltoall(parts(0)))?;
        same("what was exchanged equally", &got, &self.all_data(self.rank, length, 0))?;
        let got = wait("the exchange", self.member.alltoallv(parts(1)))?;
        let for_me = |from| made(self.nth, from, self.rank, length + self.rank);
        same("what was exchanged", &got, &(0..self.size).map(for_me).collect())
    }

    /// The numbers of a rank, small enough that their sum is exact in any order.
    fn numbers(&self, rank: u32, count: u32) -> Vec<u64> {
        (0..count)
            .map(|at| u64::from(at.wrapping_mul(37).wrapping_add(rank * 101 + self.nth) % 1000))
            .collect()
    }

    /// The numbers of all ranks, combined.
    fn combined(&self, count: u32, with: impl Fn(u64, u64) -> u64) -> Vec<u64> {
        let two = |a: Vec<u64>, b: Vec<u64>| a.into_iter().zip(b).map(|(a, b)| with(a, b)).collect();
        (0..self.size).map(|rank| self.numbers(rank, count)).reduce(two).unwrap_or_default()
    }

    pub(super) fn reduce(&self, root: u32, count: u32) -> Result<(), Wrong> {
        let root_has = |numbers| (self.rank == root).then_some(numbers);
        let got = self.member.reduce(Rank(root), &self.numbers(self.rank, count), Op::Sum);
        same("the sum", &wait("the sum", got)?, &root_has(self.combined(count, |a, b| a + b)))?;
        let joined: Vec<u8> = self.all_data(ALL, count, 1).concat();
        let mine = self.mine(ALL, count + self.rank);
        let got = self.member.reduce_by(Rank(root), mine, Vec::extend_from_slice);
        same("what was joined", &wait("joining", got)?, &(self.rank == root).then(|| joined.into()))
    }

    pub(super) fn allreduce(&self, count: u32) -> Result<(), Wrong> {
        let mine = self.numbers(self.rank, count);
        type Ops = [(Op, fn(u64, u64) -> u64); 5];
        let ops: Ops = [
            (Op::Sum, |a, b| a + b),
            (Op::Min, u64::min),
            (Op::Max, u64::max),
            (Op::And, |a, b| a & b),
            (Op::Or, |a, b| a | b),
        ];
        for (op, with) in ops {
            let got = wait("the reduction", self.member.allreduce(&mine, op))?;
            same(&format!("{op:?}"), &got, &self.combined(count, with))?;
        }
        let floats: Vec<f32> = mine.iter().map(|number| *number as f32).collect();
        let sum: Vec<f32> = self.combined(count, |a, b| a + b).iter().map(|number| *number as f32).collect();
        same("the sum of floats", &wait("floats", self.member.allreduce(&floats, Op::Sum))?, &sum)?;
        let mine = self.mine(ALL, count + self.rank);
        let joined = self.member.allreduce_by(mine, Vec::extend_from_slice);
        let should: Vec<u8> = self.all_data(ALL, count, 1).concat();
        same("what was joined", &wait("joining", joined)?, &should.into())
    }

    pub(super) fn ring(&self) -> Result<(), Wrong> {
        let count = |rank: u32| u64::from(rank * rank + 1);
        let (left, right) =
            (|rank| made(self.nth, rank, 1, rank % 7), |rank| made(self.nth, rank, 2, rank % 9));
        let place = self.member.ring(count(self.rank), left(self.rank), right(self.rank));
        let place = wait("the ring", place)?;
        same("the size of the ring", &place.size, &self.size)?;
        let places = self.member.allgather_equal(place.rank.to_le_bytes().to_vec());
        let places: Vec<_> = wait("the places", places)?.iter().map(|place| number(place)).collect();
        let mut order: Vec<_> = (0..self.size).collect();
        order.sort_by_key(|rank| places.get(*rank as usize));
        let sorted: Vec<_> = order.iter().filter_map(|rank| places.get(*rank as usize).copied()).collect();
        same("the places", &sorted, &(0..self.size).collect())?;
        let at = |place: u32| order.get((place % self.size) as usize).copied().unwrap_or(ALL);
        let before = order.iter().take(place.rank as usize).map(|rank| count(*rank)).sum();
        same("what is before", &place.before, &before)?;
        same("what is from the left", &place.left, &right(at(place.rank + self.size - 1)))?;
        same("what is from the right", &place.right, &left(at(place.rank + 1)))
    }
}
