//! The one leader.

use std::time::Duration;

use windlass_core::{Command, Leadership, Rejected, State, Term, Timestamp, WorkerId};

use super::{Case, scenarios};
use crate::Turn;

scenarios![
    one_candidate_wins,
    a_live_leader_extends_its_term,
    an_expired_leader_begins_a_new_term,
    an_expired_leader_cannot_come_back_over_another,
    resigning_makes_room_at_once,
    only_the_holder_of_the_term_resigns,
    a_term_fences_what_a_leader_does,
    a_lease_may_last_for_ever_or_not_at_all,
];

const LEASE: Duration = Duration::from_secs(30);

fn candidate(name: &str) -> WorkerId {
    WorkerId::new(name).unwrap()
}

async fn campaign(case: &Case, name: &str) -> Option<Term> {
    let won = case.store().campaign(candidate(name), LEASE).await.unwrap();
    if let Some(won) = &won {
        assert_eq!((&won.holder, won.until), (&candidate(name), case.now().plus(LEASE)));
        assert_eq!(case.store().leader().await.unwrap().as_ref(), Some(won), "what was won is what is kept");
    }
    won.map(|won| won.term)
}

/// 1.6, C18, I15: the first one asked, and nobody else while it lasts.
async fn one_candidate_wins(case: &Case) {
    assert_eq!(case.store().leader().await.unwrap(), None);
    assert_eq!(campaign(case, "a").await, Some(1));
    assert_eq!(campaign(case, "b").await, None);
    case.clock.advance(LEASE - Duration::from_micros(1));
    assert_eq!(campaign(case, "b").await, None);
    case.clock.advance(Duration::from_micros(1));
    assert_eq!(campaign(case, "b").await, Some(2));
}

/// 1.6: the same term, for longer.
async fn a_live_leader_extends_its_term(case: &Case) {
    for _ in 0..5 {
        assert_eq!(campaign(case, "a").await, Some(1));
        case.pass(15);
    }
    assert_eq!(campaign(case, "b").await, None);
}

/// C17: being the last leader is no reason to be the present one.
async fn an_expired_leader_begins_a_new_term(case: &Case) {
    assert_eq!(campaign(case, "a").await, Some(1));
    case.pass(30);
    assert_eq!(campaign(case, "a").await, Some(2));
}

/// C17, I15: an expired ex-leader does not renew while another leads.
async fn an_expired_leader_cannot_come_back_over_another(case: &Case) {
    assert_eq!(campaign(case, "a").await, Some(1));
    case.pass(30);
    assert_eq!(campaign(case, "b").await, Some(2));
    assert_eq!(campaign(case, "a").await, None);
    let leader = case.store().leader().await.unwrap().unwrap();
    assert_eq!((leader.holder, leader.term), (candidate("b"), 2));
}

/// C20: a leader that leaves does not make others wait; the number is not used again.
async fn resigning_makes_room_at_once(case: &Case) {
    campaign(case, "a").await;
    case.store().resign(candidate("a"), 1).await.unwrap();
    let over = case.store().leader().await.unwrap().unwrap();
    assert!(over.until <= case.now(), "the last lease is kept, and over");
    assert_eq!(campaign(case, "b").await, Some(2));
    case.store().resign(candidate("a"), 1).await.unwrap();
    assert_eq!(campaign(case, "a").await, None, "b still leads");
}

/// I15: neither another nor an earlier self ends a reign.
async fn only_the_holder_of_the_term_resigns(case: &Case) {
    campaign(case, "a").await;
    case.pass(30);
    campaign(case, "a").await;
    for (name, term) in [("b", 2), ("a", 1), ("a", 3), ("b", 1)] {
        case.store().resign(candidate(name), term).await.unwrap();
        assert_eq!(campaign(case, "c").await, None, "{name} resigned from {term}");
    }
}

/// C17, I15: a turn of a term that is over does nothing; that of the present one does.
async fn a_term_fences_what_a_leader_does(case: &Case) {
    let task = case.bring(case.task(), State::WaitingForRetry).await;
    campaign(case, "a").await;
    case.pass(30);
    let turn = |term| Turn { commands: vec![Command::Promote { task }], term: Some(term), claim: None };
    let before = case.snapshot().await;
    for term in [0, 1, 2, Term::MAX] {
        let error = case.store().turn(turn(term)).await.unwrap_err();
        assert_eq!(error.rejected(), Some(&Rejected::NotLeader { term }), "nobody leads");
    }
    assert_eq!(case.snapshot().await, before);
    assert_eq!(campaign(case, "b").await, Some(2));
    let error = case.store().turn(turn(1)).await.unwrap_err();
    assert_eq!(error.code(), "not_leader");
    assert_eq!(case.state(task).await, State::WaitingForRetry);
    let turned = case.store().turn(turn(2)).await.unwrap();
    assert!(turned.receipts[0].as_ref().unwrap().changed);
    assert_eq!(case.state(task).await, State::Pending);
}

/// C19: an interval is an interval, at both ends.
async fn a_lease_may_last_for_ever_or_not_at_all(case: &Case) {
    let none = case.store().campaign(candidate("a"), Duration::ZERO).await.unwrap().unwrap();
    assert_eq!((none.term, none.until), (1, case.now()));
    let ever = case.store().campaign(candidate("b"), Duration::MAX).await.unwrap();
    let expected = Leadership { holder: candidate("b"), term: 2, until: Timestamp::MAX };
    assert_eq!(ever, Some(expected));
    case.pass(1_000_000_000);
    assert_eq!(campaign(case, "a").await, None);
}
