//! A FIFO queue bounded by count and bytes, which both adapters of the bus use.

use std::collections::VecDeque;

use bytes::Bytes;

/// The bounds of a queue to one peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueLimits {
    /// Upper bound on the queued frames.
    pub frames: usize,
    /// Upper bound on the bytes of all queued bodies.
    pub bytes: usize,
}

impl Default for QueueLimits {
    fn default() -> QueueLimits {
        QueueLimits { frames: 16_384, bytes: 16 * 1024 * 1024 }
    }
}

/// An element of a queue.
pub(super) trait Queued {
    fn body(&self) -> &Bytes;
}

pub(super) struct BoundedQueue<T> {
    elements: VecDeque<T>,
    bytes: usize,
    limits: QueueLimits,
}

impl<T: Queued> BoundedQueue<T> {
    pub fn new(limits: QueueLimits) -> BoundedQueue<T> {
        BoundedQueue { elements: VecDeque::new(), bytes: 0, limits }
    }

    /// Adds an element, or returns it if it has no room.
    pub fn push(&mut self, element: T) -> Result<(), T> {
        let bytes = self.bytes + element.body().len();
        if self.elements.len() >= self.limits.frames || bytes > self.limits.bytes {
            return Err(element);
        }
        self.bytes = bytes;
        self.elements.push_back(element);
        Ok(())
    }

    pub fn pop(&mut self) -> Option<T> {
        let element = self.elements.pop_front()?;
        self.bytes -= element.body().len();
        Some(element)
    }

    pub fn is_empty(&self) -> bool {
        self.elements.is_empty()
    }

    /// Takes all elements out.
    pub fn drain(&mut self) -> impl Iterator<Item = T> {
        self.bytes = 0;
        std::mem::take(&mut self.elements).into_iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Queued for Bytes {
        fn body(&self) -> &Bytes {
            self
        }
    }

    #[test]
    fn queue_refuses_an_element_above_either_bound_and_takes_it_after_a_pop() {
        let mut queue = BoundedQueue::new(QueueLimits { frames: 3, bytes: 10 });
        let body = |length| Bytes::from(vec![0; length]);
        assert!(queue.push(body(6)).is_ok() && queue.push(body(4)).is_ok());
        assert_eq!(queue.push(body(1)), Err(body(1)), "no bytes left");
        assert!(queue.push(body(0)).is_ok());
        assert_eq!(queue.push(body(0)), Err(body(0)), "no frames left");
        assert_eq!(queue.pop().unwrap().len(), 6);
        assert!(queue.push(body(6)).is_ok());
        assert_eq!(queue.drain().count(), 3);
        assert!(queue.is_empty() && queue.push(body(10)).is_ok());
    }
}
