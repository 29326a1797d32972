#!/bin/sh
# audit.sh: check the modules that the programs are built from: their licences, and
# whether the programs call code with known vulnerabilities.
#
# The list of vulnerabilities comes from vuln.go.dev, or from GOVULNDB. Where it
# cannot be reached, this script says so and checks the licences only.
set -eu
cd "$(dirname "$0")/.."

licences=$(mktemp)
trap 'rm -f "$licences"' EXIT
go build -C .ci -o "$licences" ./licences
"$licences"

status=0
found=$(go tool -modfile=.ci/go.mod govulncheck ${GOVULNDB:+-db="$GOVULNDB"} ./adapters/... 2>&1) || status=$?
echo "$found"
case $status:$found in
0:*) ;;
*"fetching vulnerabilities"*) echo "audit: the vulnerability database could not be reached: known vulnerabilities were not checked" ;;
*) exit 1 ;;
esac
