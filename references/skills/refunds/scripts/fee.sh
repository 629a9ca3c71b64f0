#!/bin/sh
# What is kept back of a refund: 2 of every 100, at least 1. Whole amounts.
case "${1:-}" in
  ''|*[!0-9]*) echo "usage: scripts/fee.sh AMOUNT (a whole number)" >&2; exit 2 ;;
esac
fee=$(( $1 * 2 / 100 ))
[ "$fee" -lt 1 ] && fee=1
echo "$fee"
