#!/bin/sh
# The least that a shell hook can do and be honest: one jq, the pod's group, its process. No configuration, no record of
# what was done, no lock, no check of what the pod's author wrote, no log; nothing takes the group away again.
set -eu
set -- "$1" $(jq -r '.annotations["io.kubernetes.pod.uid"] + " " + (.pid | tostring)')
mkdir -p "$1/mon_groups/$2"
echo "$3" >>"$1/mon_groups/$2/tasks"
