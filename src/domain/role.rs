//! Who on the staff may do what: the one place that says so.

use super::words;

words! {
    /// What a member of the staff is to the organization; each may what the ones before may.
    Role {
        /// Sees everything of the organization's events; exports the audit.
        Viewer = "viewer",
        /// Acts on entries, offers, places and bookings.
        Agent = "agent",
        /// Runs events: their settings, rules, capacity, imports.
        Manager = "manager",
        /// Runs the organization and its team.
        Owner = "owner",
    }
}

words! {
    /// What staff do, as far as permission is concerned.
    Act {
        /// See events, queues, offers, audit.
        See = "see",
        /// Take the audit out of the program.
        ExportAudit = "export the audit",
        /// Add, remove, pause or confirm entries.
        ActOnEntries = "act on entries",
        /// Make, revoke, extend or reactivate offers; answer for a customer.
        ActOnOffers = "act on offers",
        /// Let a place come back: cancel its booking, revoke its hold.
        ReleasePlaces = "release places",
        /// Book by hand.
        Book = "book",
        /// Send messages again; read the mailbox.
        Message = "message customers",
        /// Create events, change their settings and state.
        EditEvents = "edit events",
        /// Change the rule by which offers are made.
        EditPolicy = "change the rule",
        /// Add or retire places.
        EditPlaces = "add or retire places",
        /// Book a place that is held for the list.
        OverrideReservation = "book what is held for the list",
        /// Bring in a list from a file.
        Import = "import",
        /// One act on more than a hundred rows.
        ActInBulk = "act on more than 100 at once",
        /// Invite and remove staff, change their roles.
        ManageTeam = "manage the team",
        /// Change the organization itself.
        EditOrganization = "edit the organization",
        /// See what was done outside events: who may sign in, and since when.
        SeeOrganizationAudit = "see the organization's own audit",
        /// Say where other systems are told of what happens.
        ManageWebhooks = "manage webhooks",
        /// Take the head of an audit along, to keep it elsewhere.
        TakeAnchor = "take anchors of the audit",
        /// Make and revoke keys for programs.
        ManageKeys = "manage keys",
    }
}

impl Act {
    /// The least role that may do it.
    #[must_use]
    pub fn needs(self) -> Role {
        match self {
            Self::See | Self::ExportAudit => Role::Viewer,
            Self::ActOnEntries | Self::ActOnOffers | Self::ReleasePlaces | Self::Book | Self::Message => {
                Role::Agent
            }
            Self::EditEvents
            | Self::EditPolicy
            | Self::EditPlaces
            | Self::OverrideReservation
            | Self::Import
            | Self::ActInBulk => Role::Manager,
            Self::ManageTeam
            | Self::EditOrganization
            | Self::SeeOrganizationAudit
            | Self::ManageWebhooks
            | Self::TakeAnchor
            | Self::ManageKeys => Role::Owner,
        }
    }
}

impl Role {
    /// Whether somebody of this role may do `act`.
    #[must_use]
    pub fn may(self, act: Act) -> bool {
        self >= act.needs()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_role_may_what_the_ones_before_it_may_and_more() {
        let count = |role: Role| Act::ALL.iter().filter(|act| role.may(**act)).count();
        assert_eq!(Role::ALL.iter().map(|role| count(*role)).collect::<Vec<_>>(), [2, 7, 13, 19]);
    }

    #[test]
    fn a_viewer_changes_nothing_and_only_an_owner_manages_the_team() {
        assert!(Role::Viewer.may(Act::See) && !Role::Viewer.may(Act::ActOnOffers));
        assert!(Role::Agent.may(Act::ReleasePlaces) && !Role::Agent.may(Act::OverrideReservation));
        assert!(!Role::Manager.may(Act::ManageTeam) && Role::Owner.may(Act::ManageTeam));
    }
}
