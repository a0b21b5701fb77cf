//! Executes commands on the node that leads the metadata log, and follows that log, which every node does.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use tailrace_env::time::{Duration, Instant};
use tailrace_env::{select, task, time};

use tailrace_env::sync::{Notify, OwnedMutexGuard, watch};
use tailrace_metadata::{ApplyError, Command, ControlError, Controller, MetadataRecord};
use tailrace_replication::Appended;
use tailrace_replication::raft::Barrier;
use tailrace_types::{HighWatermark, LeaderEpoch, Offset, TimestampMs};

use super::log::{self, Change, MetadataError};
use super::{Check, CommandError, ControllerShell, ControllerState, Executed, rehearsed};
use crate::ask::{EpochOf, ask};
use crate::caller::Caller;
use crate::deadlines::COMMAND_TIMEOUT;
use crate::partitions::{AppendFailure, Awaited, Core, PartitionHandle, WaitOutcome};
use tailrace_env::task::{JoinSet, stopped};
use tailrace_env::time::wall_clock;

/// Pause after the metadata log could not be read.
const READ_RETRY_INTERVAL: Duration = Duration::from_secs(1);

type Guard = OwnedMutexGuard<Option<ControllerState>>;

impl ControllerShell {
    /// Executes a command on the node that leads the metadata log. Stops waiting for other nodes after
    /// [`COMMAND_TIMEOUT`]. Asks for the rights when all earlier commands have been applied: before, this
    /// node may have old rules, above all if it has just been elected.
    pub(crate) async fn execute_here(
        self: &Arc<Self>,
        command: Command,
        now: TimestampMs,
        check: Check<'_>,
    ) -> Result<Executed, CommandError> {
        if command == Command::Barrier {
            return self.barrier_here(now).await;
        }
        let until = Instant::now() + COMMAND_TIMEOUT;
        let guard = self.turn(until).await?;
        let (guard, epoch) = self.settle(guard, now, until).await?;
        let (guard, refusal) = self.refusal(guard, &command, check).await?;
        let (mut guard, planned) = match refusal {
            Some(refusal) => (guard, Err(CommandError::Refused(refusal))),
            None => self.plan_and_append(guard, command, epoch, now).await?,
        };
        let (records, awaited) = match planned {
            Ok(planned) => planned,
            Err(refusal @ CommandError::Refused(_)) => {
                drop(guard);
                self.confirm(epoch, until).await?;
                return Err(refusal);
            }
            Err(error) => return Err(error),
        };
        if let Some(awaited) = &awaited {
            self.committed(*awaited, until).await?;
            guard = self.apply_committed(guard, now).await?;
        }
        // Still under the controller's lock: the effects happened in the order of their commands.
        let state = guard.as_ref().ok_or(CommandError::Stopping)?;
        let executed = Executed { records, image: state.controller.image(), end: state.applied };
        drop(guard);
        if awaited.is_none() {
            self.confirm(epoch, until).await?;
        }
        Ok(executed)
    }

    /// Confirms leadership, for an answer that wrote no record: another node may already lead the metadata
    /// log, and have executed commands that this node does not know. If a majority of the voters is in no
    /// later epoch, it has not voted for a later leader. Then whatever this node knew before it asked them
    /// was the newest. Nothing is written.
    async fn confirm(&self, epoch: LeaderEpoch, until: Instant) -> Result<(), CommandError> {
        if self.is_alone() {
            return Ok(());
        }
        let handle = self.handle();
        let (Some(own), Some(members)) = (handle.replica(), handle.members().await) else {
            return Err(CommandError::NotController);
        };
        let mut asked = JoinSet::new();
        for voter in members.voters.iter().copied().filter(|voter| *voter != own) {
            let links = Arc::clone(&self.opener.context.links);
            asked.spawn(async move {
                ask(&links, Caller::internal(), voter.node(), EpochOf { replica: voter.0 }).await
            });
        }
        let mut confirmed = usize::from(members.voters.contains(&own));
        while confirmed <= members.voters.len() / 2 {
            match time::timeout_at(until, asked.join_next()).await {
                Ok(Some(Ok(Ok(Some(known))))) if known <= epoch.get() => confirmed += 1,
                Ok(Some(_)) => {}
                Ok(None) | Err(_) => return Err(CommandError::NotController),
            }
        }
        match self.handle().leads() {
            Some(leads) if leads == epoch => Ok(()),
            _ => Err(CommandError::NotController),
        }
    }

    /// Waits until no other command is being executed. In a cluster the wait is bounded, because each earlier
    /// command may itself wait for a majority.
    pub(super) async fn turn(&self, until: Instant) -> Result<Guard, CommandError> {
        let turn = Arc::clone(&self.state).lock_owned();
        if self.is_alone() {
            return Ok(turn.await);
        }
        time::timeout_at(until, turn).await.map_err(|_| CommandError::NotController)
    }

    /// Keeps all commands waiting until the result is dropped.
    #[cfg(test)]
    pub(crate) async fn keep_busy(&self) -> impl Sized + use<> {
        self.turn(Instant::now() + COMMAND_TIMEOUT).await.ok()
    }

    /// Has a majority confirm that this node leads the metadata log, and applies all that was committed by
    /// then. Other commands do not wait meanwhile.
    async fn barrier_here(self: &Arc<Self>, now: TimestampMs) -> Result<Executed, CommandError> {
        let until = Instant::now() + COMMAND_TIMEOUT;
        let handle = self.handle();
        handle.leads().ok_or(CommandError::NotController)?;
        handle.wake_up();
        if let Some(barrier) = begin_barrier(&handle, now).await? {
            match time::timeout_at(until, handle.wait_barrier(&barrier)).await {
                Ok(true) => {}
                Ok(false) | Err(_) => return Err(CommandError::NotController),
            }
        }
        let guard = self.apply_committed(self.turn(until).await?, now).await?;
        let state = guard.as_ref().ok_or(CommandError::Stopping)?;
        Ok(Executed { records: Vec::new(), image: state.controller.image(), end: state.applied })
    }

    /// Waits until all that is in the log is committed and applied, including records whose command timed
    /// out: commands are planned against all of it. Returns the epoch in which this node leads the log.
    async fn settle(
        self: &Arc<Self>,
        guard: Guard,
        now: TimestampMs,
        until: Instant,
    ) -> Result<(Guard, LeaderEpoch), CommandError> {
        let handle = self.handle();
        let epoch = handle.leads().ok_or(CommandError::NotController)?;
        let end = handle.reader.log_end().offset();
        let last = handle.reader.log().epoch_at(end.plus(-1)).unwrap_or(epoch);
        let committed = self.committed(Awaited { at: HighWatermark(end.get()), epoch: last }, until).await;
        committed.map_err(|error| match error {
            // The unknown outcome is that of earlier commands.
            CommandError::OutcomeUnknown => CommandError::NotController,
            error => error,
        })?;
        Ok((self.apply_committed(guard, now).await?, epoch))
    }

    pub(super) async fn committed(&self, awaited: Awaited, until: Instant) -> Result<(), CommandError> {
        let Some(wait) = self.handle().wait_committed(awaited) else { return Ok(()) };
        match time::timeout_at(until, wait).await {
            Ok(Ok(WaitOutcome::Committed)) => Ok(()),
            Ok(Ok(WaitOutcome::Halted)) if self.is_alone() => {
                Err(CommandError::Append(self.halted().unwrap_or_default()))
            }
            Ok(Ok(WaitOutcome::Halted | WaitOutcome::Deposed) | Err(_)) | Err(_) => {
                Err(CommandError::OutcomeUnknown)
            }
        }
    }

    /// Asks for the rights. No other command is executed meanwhile. Nothing is refused here if the command
    /// fails: it is refused with its own error then.
    async fn refusal(
        &self,
        guard: Guard,
        command: &Command,
        check: Check<'_>,
    ) -> Result<(Guard, Option<ControlError>), CommandError> {
        if let Some(refusal) = check.refusal(command) {
            return Ok((guard, Some(refusal)));
        }
        let Some(topic) = check.topic(command).map(str::to_owned) else { return Ok((guard, None)) };
        let command = command.clone();
        let work = move || {
            let controller = guard.as_ref().map(|state| state.controller.clone());
            let change = controller.and_then(|controller| {
                let before = controller.image();
                let after = rehearsed(controller, &command).ok()?;
                Some([before, after].map(|image| image.topic(&topic).cloned()))
            });
            (guard, change)
        };
        let (guard, change) = task::spawn_blocking(work).await?;
        let refusal =
            change.and_then(|[before, after]| check.refusal_of_change(before.as_deref(), after.as_deref()));
        Ok((guard, refusal))
    }

    /// Plans and appends on a worker, because an append may block on the disk.
    async fn plan_and_append(
        &self,
        guard: Guard,
        command: Command,
        epoch: LeaderEpoch,
        now: TimestampMs,
    ) -> Result<(Guard, Result<(Vec<MetadataRecord>, Option<Awaited>), CommandError>), CommandError> {
        let handle = self.handle();
        let work = move || {
            let planned = match guard.as_ref() {
                Some(state) => plan_and_append(&state.controller, &handle, &command, epoch, now),
                None => Err(CommandError::Stopping),
            };
            (guard, planned)
        };
        Ok(task::spawn_blocking(work).await?)
    }

    /// Follows the metadata log for as long as the server runs, to apply what other nodes commit.
    pub(crate) async fn follow(self: &Arc<Self>, mut stopping: watch::Receiver<bool>) {
        let moved = Arc::new(Notify::new());
        loop {
            let handle = self.handle();
            handle.register_fetch(&moved);
            let followed = {
                let guard = Arc::clone(&self.state).lock_owned().await;
                self.apply_committed(guard, wall_clock()).await.map(drop)
            };
            let wait = async {
                if let Err(error) = followed {
                    tracing::error!(%error, "cannot follow the metadata log");
                    time::sleep(READ_RETRY_INTERVAL).await;
                } else if Arc::ptr_eq(&handle, &self.handle.load()) {
                    // If the handle is replaced after this check, its waiters are woken.
                    moved.notified().await;
                }
            };
            select! {
                () = wait => {}
                () = stopped(&mut stopping) => return,
            }
        }
    }

    /// Applies everything that is committed and not yet in the image. Runs to the end even if the caller goes
    /// away: a half-applied change would stay so until the metadata change again.
    pub(super) async fn apply_committed(
        self: &Arc<Self>,
        mut guard: Guard,
        now: TimestampMs,
    ) -> Result<Guard, CommandError> {
        let Some(state) = guard.as_ref() else { return Err(CommandError::Stopping) };
        if !log::has_committed(&self.handle.load().reader, state.applied) {
            return Ok(guard);
        }
        let shell = Arc::clone(self);
        let applied = task::spawn(async move {
            let applied = match guard.as_mut() {
                Some(state) => shell.apply_to(state, now).await,
                None => Ok(()),
            };
            (guard, applied)
        });
        let (guard, applied) = applied.await?;
        applied.map(|()| guard)
    }

    async fn apply_to(&self, state: &mut ControllerState, now: TimestampMs) -> Result<(), CommandError> {
        let (reader, from) = (self.handle.load().reader.clone(), state.applied);
        let read = move || log::committed_from(&reader, from).collect::<Result<Vec<_>, _>>();
        let changes = task::spawn_blocking(read).await??;
        let (mut controller, mut applied) = (state.controller.clone(), state.applied);
        let mut of_note = false;
        for change in changes {
            match change {
                Change::Reset => controller = controller.emptied(),
                Change::Record(record, offset) => {
                    of_note |= !matches!(record, MetadataRecord::ProducerIds { .. });
                    apply(&mut controller, &record, offset)?;
                }
                Change::Upto(next) => applied = next,
            }
        }
        let image = controller.image();
        let was_held = state.hold.is_some();
        let hold = state.hold.take().filter(|hold| !hold.is_over(&image, applied));
        let is_held = hold.is_some();
        (state.controller, state.applied, state.hold) = (controller, applied, hold);
        if is_held {
            return Ok(());
        }
        if was_held {
            let (opener, image) = (self.opener.clone(), Arc::clone(&image));
            let swept = task::spawn_blocking(move || opener.remove_strays(&image)).await;
            swept?;
            self.is_held.store(false, Ordering::Release);
            of_note = true;
        }
        self.image.store(Arc::clone(&image));
        self.carry_out(&image, now).await;
        self.applied.send_replace(applied);
        if of_note {
            self.changes.send_modify(|changes| *changes += 1);
        }
        Ok(())
    }
}

fn apply(controller: &mut Controller, record: &MetadataRecord, offset: Offset) -> Result<(), CommandError> {
    let applied: Result<(), ApplyError> = controller.apply(record);
    Ok(applied.map_err(|error| MetadataError::Apply { offset, error })?)
}

/// On a worker, because it syncs an entry of the log. `None` if the log has a single replica, which is its
/// own majority.
async fn begin_barrier(
    handle: &Arc<PartitionHandle>,
    now: TimestampMs,
) -> Result<Option<Barrier>, CommandError> {
    let begin = move |core: &mut Core| core.replica().map(|replica| replica.begin_barrier(now)).transpose();
    Ok(handle.with_on_worker(begin).await.ok_or(CommandError::Stopping)??)
}

fn plan_and_append(
    controller: &Controller,
    handle: &Arc<PartitionHandle>,
    command: &Command,
    epoch: LeaderEpoch,
    now: TimestampMs,
) -> Result<(Vec<MetadataRecord>, Option<Awaited>), CommandError> {
    let records = controller.plan(command)?;
    if records.is_empty() {
        return Ok((records, None));
    }
    let awaited = append(handle, &records, epoch, now)?;
    Ok((records, Some(awaited)))
}

/// Appends records as one batch, in the epoch in which they were planned: another leader may have appended in
/// between, and this node may have been elected again. Blocks on the disk.
pub(super) fn append(
    handle: &Arc<PartitionHandle>,
    records: &[MetadataRecord],
    epoch: LeaderEpoch,
    now: TimestampMs,
) -> Result<Awaited, CommandError> {
    let batch = log::batch_of(records, None, now)?;
    let append = |core: &mut Core| -> Result<Appended, CommandError> {
        if core.leads() != Some(epoch) {
            return Err(CommandError::NotController);
        }
        core.begin_epoch().map_err(AppendFailure::Refused)?;
        Ok(core.append(&batch.header, &batch.bytes, None, now)?)
    };
    let appended = handle.with_blocking(append).ok_or(CommandError::Stopping)??;
    Ok((&appended).into())
}
