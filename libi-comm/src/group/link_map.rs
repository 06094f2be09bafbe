//! A map of the links of a process, which are few in most processes: a sorted list in one block of
//! memory. A collective call begins with one or two, and a small call ends soon after.

use libi_core::ids::LinkId;

/// See the [module](self).
#[derive(Clone, Debug)]
pub(crate) struct LinkMap<T>(Vec<(LinkId, T)>);

impl<T> Default for LinkMap<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> LinkMap<T> {
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The link at a place in their order.
    pub(crate) fn link_at(&self, place: usize) -> Option<LinkId> {
        self.0.get(place).map(|(link, _)| *link)
    }

    fn find(&self, link: LinkId) -> Result<usize, usize> {
        self.0.binary_search_by_key(&link, |(other, _)| *other)
    }

    pub(crate) fn contains(&self, link: LinkId) -> bool {
        self.find(link).is_ok()
    }

    pub(crate) fn get(&self, link: LinkId) -> Option<&T> {
        let place = self.find(link).ok()?;
        self.0.get(place).map(|(_, value)| value)
    }

    pub(crate) fn get_mut(&mut self, link: LinkId) -> Option<&mut T> {
        let place = self.find(link).ok()?;
        self.0.get_mut(place).map(|(_, value)| value)
    }

    /// Sets the value of a link.
    pub(crate) fn insert(&mut self, link: LinkId, value: T) {
        match self.find(link) {
            Ok(place) => self.0[place].1 = value,
            Err(place) => self.0.insert(place, (link, value)),
        }
    }

    pub(crate) fn remove(&mut self, link: LinkId) -> Option<T> {
        self.find(link).ok().map(|place| self.0.remove(place).1)
    }

    /// Keeps the links for which this holds.
    pub(crate) fn retain(&mut self, mut keeps: impl FnMut(LinkId, &T) -> bool) {
        self.0.retain(|(link, value)| keeps(*link, value));
    }

    pub(crate) fn links(&self) -> impl Iterator<Item = LinkId> {
        self.0.iter().map(|(link, _)| *link)
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = &T> {
        self.0.iter().map(|(_, value)| value)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (LinkId, &T)> {
        self.0.iter().map(|(link, value)| (*link, value))
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (LinkId, &mut T)> {
        self.0.iter_mut().map(|(link, value)| (*link, value))
    }
}

impl<T> From<Vec<(LinkId, T)>> for LinkMap<T> {
    fn from(mut entries: Vec<(LinkId, T)>) -> Self {
        entries.sort_unstable_by_key(|(link, _)| *link);
        Self(entries)
    }
}

impl<T> FromIterator<(LinkId, T)> for LinkMap<T> {
    fn from_iter<I: IntoIterator<Item = (LinkId, T)>>(entries: I) -> Self {
        Vec::from_iter(entries).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_found_in_whatever_order_they_come() {
        let mut map: LinkMap<u32> = [(LinkId(7), 7), (LinkId(2), 2)].into_iter().collect();
        for link in [4, 0, 9] {
            map.insert(LinkId(link), link);
        }
        map.insert(LinkId(4), 40);
        assert_eq!(map.links().collect::<Vec<_>>(), [0, 2, 4, 7, 9].map(LinkId));
        assert_eq!((map.get(LinkId(4)), map.get(LinkId(5))), (Some(&40), None));
        assert_eq!((map.remove(LinkId(2)), map.remove(LinkId(2))), (Some(2), None));
        map.retain(|link, value| link.0 == *value);
        assert_eq!(map.values().copied().collect::<Vec<_>>(), [0, 7, 9]);
        assert_eq!((map.link_at(1), map.link_at(3)), (Some(LinkId(7)), None));
    }
}
