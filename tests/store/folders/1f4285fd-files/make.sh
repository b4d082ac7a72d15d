#!/bin/bash
# Writes ../results with the code in ../code and the Python in ../venv. Run in this folder.
set -eu
export PYTHONPATH=../code
ablate() { ../venv/bin/python -m ablate "$@"; }
run() { ablate run "$@" --results ../results --workers 1 --no-mlflow; }
killed() { # FILE TEXT WHERE: a run of FILE, killed with its workers once TEXT is in WHERE
    setsid ../venv/bin/python -m ablate run "$1" --results ../results --workers 1 --no-mlflow &
    until grep -qs "$2" ../results/$3; do sleep 0.01; done
    kill -9 -- -$!
    wait $! || true
}

run fixed.yaml
run fixed.yaml --set seeds=4
run factorial.yaml
run adaptive.yaml
run ladder.yaml
run budget.yaml
run search.yaml
run failing.yaml --plugin plugins/fault.py --timeout 25s || true
ablate retry --results ../results --outcome bug || true

# A trial that is forgotten: its sealed file is cut and the database is deleted, which doctor says.
run pooled.yaml --plugin plugins/pool.py --profile smoke
run pooled.yaml --plugin plugins/pool.py
truncate -s 100 "$(ls -t ../results/trials/*.parquet | head -n 1)"
rm ../results/ablate.duckdb
ablate doctor --results ../results || true
run pooled.yaml --plugin plugins/pool.py

# A search that was killed behind its second proposal; a trial that was killed behind its first checkpoint.
killed open_search.yaml '"space":"open_search".*"k":1,' plans.jsonl
killed interrupted.yaml '"checkpoint",200,' 'journal/*.jsonl'

# A search that a forecast kept from some proposals, and the same trial killed again behind its second checkpoint.
run avoiding.yaml
killed interrupted.yaml '"checkpoint",400,' 'journal/*.jsonl'
