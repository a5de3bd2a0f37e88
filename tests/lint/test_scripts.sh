#!/bin/bash
# The scripts themselves: each tells what it does, the package list is sound, mpirun gets what root and few cores need.
set -euo pipefail
cd "$(dirname "$0")/../.."

fail() {
  echo "test_scripts: $1" >&2
  exit 1
}

for script in scripts/*; do
  [[ -x $script && -f $script ]] || continue
  help=$(timeout 20 "$script" --help </dev/null) || fail "$script --help ends with $?"
  [[ $help = *usage:\ * ]] || fail "$script --help shows no usage"
  read -r first <"$script"
  [[ $first = '#!/bin/bash' || $first = '#!/usr/bin/env python3' ]] || fail "$script: unknown interpreter $first"
done

twice=$(scripts/install-packages --list | sort | uniq -d)
[[ -z $twice ]] || fail "scripts/packages.txt names twice: $twice"
for group in run build test; do
  [[ $(scripts/install-packages --"$group" --list | wc -l) -ge 5 ]] || fail "group $group of scripts/packages.txt is short"
done
whole=$(scripts/install-packages --list | wc -l)
parts=$(for group in run build test; do scripts/install-packages --"$group" --list; done | wc -l)
[[ $whole = "$parts" ]] || fail "$whole packages in all, $parts in the groups"
odd=$(scripts/install-packages --list | grep -vE '^[a-z0-9][a-z0-9+.-]+$' || true)
[[ -z $odd ]] || fail "scripts/packages.txt: no package names: $odd"
code=0
scripts/install-packages --no-such-group 2>/dev/null || code=$?
[[ $code = 2 ]] || fail "an unknown option ended with $code, not 2"

told=$(MPIRUN=echo scripts/mpirun -n 5 prog "a b")
[[ $told = "--oversubscribe --bind-to none -n 5 prog a b" ]] || fail "mpirun was given: $told"
ranks=$(timeout -s KILL 60 scripts/mpirun -n 3 bash -c 'echo $OMPI_COMM_WORLD_RANK' | sort | tr -d '\n')
[[ $ranks = 012 ]] || fail "three ranks said '$ranks'"
echo "test_scripts: passed"
