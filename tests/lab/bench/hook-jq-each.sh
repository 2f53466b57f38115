#!/bin/sh
# The same with a jq for each of five values, as hooks are commonly written.
set -eu
state=$(cat)
value() { printf '%s' "$state" | jq -r "$1"; }
uid=$(value '.annotations["io.kubernetes.pod.uid"]')
namespace=$(value '.annotations["io.kubernetes.pod.namespace"]')
name=$(value '.annotations["io.kubernetes.pod.name"]')
id=$(value .id)
pid=$(value .pid)
: "$namespace/$name $id"
mkdir -p "$1/mon_groups/$uid"
echo "$pid" >>"$1/mon_groups/$uid/tasks"
