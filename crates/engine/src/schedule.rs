//! Setting and looking at schedules.

use std::future::IntoFuture;
use std::pin::Pin;

use windlass_core::{Firing, Missed, Name, NewSchedule, Overlap, Rejected, Schedule, Template, Timestamp};
use windlass_store::{Error, Result, Submitted};

use crate::client::Client;
use crate::cron::Cron;
use crate::ids::task_id;
use crate::submit::Submit;

/// A schedule to set. Say what differs from the defaults, then `.await` it.
#[derive(Debug)]
#[must_use = "a schedule is set by awaiting this"]
pub struct SetSchedule {
    client: Client,
    name: String,
    cron: String,
    zone: String,
    task: Submit,
    missed: Missed,
    overlap: Overlap,
    paused: Option<bool>,
}

impl SetSchedule {
    /// The time zone that the expression is meant in; `UTC` by default.
    pub fn zone(mut self, zone: &str) -> Self {
        self.zone = zone.into();
        self
    }

    /// What to do about slots that passed while nobody could fire them; one run for all of them by default.
    pub fn missed(mut self, missed: Missed) -> Self {
        self.missed = missed;
        self
    }

    /// What to do when the task of the slot before is not over; nothing about it by default.
    pub fn overlap(mut self, overlap: Overlap) -> Self {
        self.overlap = overlap;
        self
    }

    /// Whether it is paused; left as it is by default.
    pub fn paused(mut self, paused: bool) -> Self {
        self.paused = Some(paused);
        self
    }

    /// The schedule that is set.
    pub async fn build(self) -> Result<NewSchedule> {
        let cron = Cron::parse(&self.cron, &self.zone)?;
        let task = self.task.build()?;
        self.client.rules.check_task(&task)?;
        let now = self.client.store.now().await?;
        Ok(NewSchedule {
            namespace: self.client.namespace.clone(),
            name: name(&self.name)?,
            cron: self.cron,
            zone: self.zone,
            template: Template::new(task),
            missed: self.missed,
            overlap: self.overlap,
            paused: self.paused,
            next_at: cron.next_after(now).unwrap_or(Timestamp::MAX),
        })
    }

    async fn set(self) -> Result<Schedule> {
        let store = self.client.store.clone();
        store.set_schedule(self.build().await?).await
    }
}

impl IntoFuture for SetSchedule {
    type Output = Result<Schedule>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.set())
    }
}

fn name(text: &str) -> Result<Name> {
    Ok(Name::new("schedule", text)?)
}

impl Client {
    /// A schedule that submits `task` whenever the cron expression says so. Setting the same name again
    /// changes it; setting the same again changes nothing, so that a program may do it at every start.
    ///
    /// ```
    /// # use windlass::{Overlap, Windlass};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let client = Windlass::open("memory:").await?.client();
    /// let report = client.submit_json("report:make", "{}");
    /// let schedule = client.schedule("nightly", "0 3 * * *", report).zone("Europe/Berlin").overlap(Overlap::Skip).await?;
    /// println!("first at {}", schedule.next_at);
    /// # Ok(())
    /// # }
    /// ```
    pub fn schedule(&self, name: &str, cron: &str, task: Submit) -> SetSchedule {
        SetSchedule {
            client: self.clone(),
            name: name.into(),
            cron: cron.into(),
            zone: "UTC".into(),
            task,
            missed: Missed::default(),
            overlap: Overlap::default(),
            paused: None,
        }
    }

    /// All schedules of this namespace, by name.
    pub async fn schedules(&self) -> Result<Vec<Schedule>> {
        let mut schedules = self.store.schedules().await?;
        schedules.retain(|schedule| schedule.namespace == self.namespace);
        Ok(schedules)
    }

    async fn find_schedule(&self, text: &str) -> Result<Schedule> {
        let wanted = name(text)?;
        let found = self.schedules().await?.into_iter().find(|schedule| schedule.name == wanted);
        found.ok_or_else(|| Rejected::UnknownSchedule { name: text.into() }.into())
    }

    /// Forgets a schedule; says whether there was one. Tasks that it submitted stay.
    pub async fn remove_schedule(&self, schedule: &str) -> Result<bool> {
        self.store.remove_schedule(self.namespace.clone(), name(schedule)?).await
    }

    /// Pauses a schedule, or lets it go on with the first slot from now on.
    pub async fn pause_schedule(&self, schedule: &str, paused: bool) -> Result<Schedule> {
        self.store.set_schedule(self.build_paused(schedule, paused).await?).await
    }

    /// The schedule that [`pause_schedule`](Self::pause_schedule) sets.
    pub async fn build_paused(&self, schedule: &str, paused: bool) -> Result<NewSchedule> {
        let Schedule { namespace, name, cron, zone, template, missed, overlap, .. } =
            self.find_schedule(schedule).await?;
        let now = self.store.now().await?;
        let next_at = Cron::parse(&cron, &zone)?.next_after(now).unwrap_or(Timestamp::MAX);
        let paused = Some(paused);
        Ok(NewSchedule { namespace, name, cron, zone, template, missed, overlap, paused, next_at })
    }

    /// Submits what a schedule submits, now, whatever its times and policies say.
    pub async fn run_schedule(&self, schedule: &str) -> Result<Submitted> {
        loop {
            match self.store.fire(self.build_firing(schedule).await?, None).await {
                Ok(mut submitted) => return Ok(submitted.remove(0)),
                // A slot came in between; the schedule is looked at again.
                Err(Error::Rejected(Rejected::ScheduleMoved { .. })) => {}
                Err(error) => return Err(error),
            }
        }
    }
    /// What [`run_schedule`](Self::run_schedule) fires.
    pub async fn build_firing(&self, schedule: &str) -> Result<Firing> {
        let schedule = self.find_schedule(schedule).await?;
        Ok(Firing {
            namespace: schedule.namespace.clone(),
            name: schedule.name.clone(),
            expected: schedule.next_at,
            next_at: schedule.next_at,
            last_at: None,
            tasks: vec![schedule.task(task_id(), None)],
            skipped: 0,
            left_out: None,
            error: None,
        })
    }
}
