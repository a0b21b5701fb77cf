//! Does something with each of many things, several at a time.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

/// Calls `work` for each thing, with `jobs` threads, and returns what it returned in the order of the things.
/// The first error ends it.
pub(crate) fn each<T: Sync, R: Send>(
    things: &[T],
    jobs: usize,
    work: impl Fn(&T) -> Result<R, String> + Sync,
) -> Result<Vec<Option<R>>, String> {
    let (next, failure) = (AtomicUsize::new(0), Mutex::new(None));
    let done: Mutex<Vec<Option<R>>> = Mutex::new(things.iter().map(|_| None).collect());
    let turn = || {
        while let Some((index, thing)) = take(things, &next) {
            match work(thing) {
                Ok(result) => done.lock().unwrap_or_else(PoisonError::into_inner)[index] = Some(result),
                Err(reason) => {
                    next.store(things.len(), Ordering::Relaxed);
                    *failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(reason);
                }
            }
        }
    };
    thread::scope(|scope| (0..jobs).for_each(|_| drop(scope.spawn(turn))));
    match failure.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some(reason) => Err(reason),
        None => Ok(done.into_inner().unwrap_or_else(PoisonError::into_inner)),
    }
}

fn take<'a, T>(things: &'a [T], next: &AtomicUsize) -> Option<(usize, &'a T)> {
    let index = next.fetch_add(1, Ordering::Relaxed);
    things.get(index).map(|thing| (index, thing))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_have_the_order_of_the_things() {
        let squares = each(&[1, 2, 3], 2, |number| Ok(number * number)).expect("no error");
        assert_eq!(squares, [Some(1), Some(4), Some(9)]);
    }

    #[test]
    fn an_error_ends_it() {
        let result = each(&[1, 2, 3], 1, |number| if *number == 2 { Err("two".to_owned()) } else { Ok(()) });
        assert_eq!(result, Err("two".to_owned()));
    }
}
