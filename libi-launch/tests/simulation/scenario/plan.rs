//! The plan that the front end gets.

use std::num::NonZeroU32;
use std::time::Duration;

use libi_core::cost::Cost;
use libi_core::dist::OsBytes;
use libi_core::dist::layout::Block;
use libi_core::ids::{HostIndex, Rank};
use libi_core::plan::late::Attempt;
use libi_core::plan::{Shape, Strategy, Tree};
use libi_core::secure::{Entropy, Secret};
use libi_launch::backend::Starter;
use libi_launch::machine::{CarriedSecret, HostSpec, LaunchPlan, Program};
use libi_launch::options::{LaunchOptions, OnLoss};

use super::Scenario;

impl Scenario {
    /// The secret of links that may leave the channels, if there are any.
    fn secret(&self, options: &LaunchOptions) -> Option<CarriedSecret> {
        let mut bytes = [self.seed as u8; Entropy::LEN];
        options.has_secret().then(|| CarriedSecret(Secret::new(Entropy::new(&mut bytes))))
    }

    /// The plan for the front end.
    pub(crate) fn plan(&self) -> LaunchPlan {
        let program = Program {
            executable: OsBytes::try_from("tool").unwrap(),
            args: Vec::new(),
            env: Vec::new(),
            cwd: None,
        };
        let task = |host: u32| HostSpec {
            host: HostIndex(host),
            attempt: Attempt::default(),
            name: format!("node{host}"),
            user: None,
            port: None,
            below: 0,
            faults: 0,
            restarts: 0,
            blocks: vec![Block { first: Rank(host * self.members), count: self.members, distribution: 0 }],
        };
        let spares: Vec<_> = (0..self.spares).map(|number| format!("spare{number}")).collect();
        let options = LaunchOptions::local()
            .spares(spares.join(",").parse().unwrap())
            .rules(self.rules)
            .policy(self.policy)
            .settle(self.settle)
            .deadline(self.deadline)
            .links(self.links)
            .cost(self.cost())
            .strategy(self.relays.map_or(self.strategy, |relays| Strategy::Static(Shape::Kary(relays))))
            .front_end_launches(self.limit);
        let options = if self.reconnects {
            options.on_loss(OnLoss::Continue).restarts(self.restarts).replace_master(self.replace_master)
        } else {
            options
        };
        let starter = Starter::new(OsBytes::try_from("starter").unwrap());
        let starter = Starter { hosts_per_start: self.hosts_per_start, ..starter };
        let options = match self.srun() {
            Some(srun) => options.backend(srun),
            None if self.bulk.is_some() => options.backend(starter),
            None => options,
        };
        let options =
            self.input_options(self.staging_options(self.fold_options(self.agent_options(options))));
        LaunchPlan {
            hosts: (0..self.hosts).map(task).collect(),
            programs: vec![program],
            size: self.hosts * self.members,
            secret: self.secret(&options),
            options,
        }
    }

    /// The assumed cost.
    fn cost(&self) -> Cost {
        Cost::new(Duration::from_millis(5), Duration::from_millis(200))
    }

    /// The static tree, if there is one.
    pub(crate) fn tree(&self) -> Option<Tree> {
        match self.strategy {
            Strategy::Late => None,
            Strategy::Static(shape) => Some(shape.tree(NonZeroU32::new(self.hosts).unwrap(), &self.cost())),
        }
    }
}
