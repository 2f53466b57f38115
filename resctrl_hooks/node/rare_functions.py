"""Functions that an ordinary createRuntime does not run: the compiled file holds their code unread until a call."""

RARE = {
    ".container.oci": """
        Bundle.resources
    """,
    ".container.workload": """
        _bounded _is_read
        Workload.annotation Workload.own_and_pods Workload.threads _bad_key workload_of
    """,
    ".feature": """
        Step.of_record Feature.plan Feature.apply Feature.holds Feature.revert Feature.properties Feature.values
        Feature.reserve Feature.preview Feature.lost Feature.adopt Feature.orphans Feature.repair Feature.withdraw
        stop_waiting needed_classes
    """,
    ".features.monitoring": """
        Monitoring.holds Monitoring.reserve
    """,
    ".hook.call": """
        _Call.names _Call.is_refusable
    """,
    ".hook.create_runtime": """
        in_words
        refuses is_refusal give_up _trouble _classes_of_others _note_unread _forget _release_in
    """,
    ".hook.poststop": """
        poststop
    """,
    ".host.cgroup_names": """
        container_in_cgroup maker_of
    """,
    ".host.files": """
        read_all
        _constant _no_json read_to_end kernel_text make_folder is_there
    """,
    ".host.procfs": """
        lives
    """,
    ".ledger": """
        Ledger.lock_totals Ledger.prepare Ledger.keys Ledger.remove_pod Ledger.members Ledger.read_member
        Ledger.has_member Ledger.remove_member Ledger.containers Ledger.forget Ledger.forget_unusable
        Ledger.mark Ledger.flag Ledger.flagged Ledger.age Ledger.touch Ledger.wake
    """,
    ".lifecycle": """
        forget reap_some _some reap make_room looks_dead
        is_of_earlier_run fate release_key
    """,
    ".log": """
        Log._append _syslog silent to_stderr
    """,
    ".names": """
        namespace_in_words printable workload_key_validator valid_class matches
    """,
    ".registry": """
        cgroup_values features_to_repair features_with_values
        kind_of serves
    """,
    ".resctrl.filesystem": """
        Filesystem.rmdir Filesystem.rename Filesystem.listdir Resctrl.remove Resctrl.move Resctrl.classes
        Resctrl.groups Resctrl.last_cmd_status Resctrl.refused
    """,
    ".resctrl.locked_key": """
        Group.how Group.__repr__ Group.__eq__ Group.__hash__ LockedKey.how
        LockedKey.lock_again LockedKey.try_lock LockedKey.groups
        LockedKey._keep_baseline LockedKey._save_or_forget LockedKey._assign_where_possible
        LockedKey.remove_member LockedKey.members LockedKey.member LockedKey.member_is_dead
        LockedKey.release LockedKey._remove LockedKey._leave_index LockedKey.remove_unused LockedKey.release_but
        record_is_dead
    """,
    ".resctrl.monitor": """
        Monitor.hold_beside Monitor.ensure_group Monitor.assign_pid Monitor.remove Monitor.add_member
        Monitor.remove_member Monitor.member_count Monitor.member_is_dead Monitor.reconcile Monitor.read
        Monitor.read_all Monitor.look Monitor.list
    """,
    ".settings": """
        Settings.check_allowed Settings.selects_labels allows _never_applied _nothing_at is_unapplied
    """,
}
