# sh client.sh http://127.0.0.1:8080/ sends requests until one is refused, and prints each answer:
# the status, what remains, and after a refusal the seconds to wait.
status=200
while [ "$status" = 200 ]; do
  headers=$(curl -si -H 'Authorization: sh' "$1" | tr -d '\r')
  field() { echo "$headers" | sed -n "s/^$1: //Ip"; }
  status=$(echo "$headers" | sed -n '1s/^HTTP[^ ]* \([0-9]*\).*/\1/p')
  remaining=$(field RateLimit | sed 's/.*r=\([0-9]*\).*/\1/')
  [ -n "$remaining" ] || remaining=$(field X-RateLimit-Remaining)
  wait=
  if [ "$status" != 200 ]; then
    wait=$(field Retry-After)
    [ -n "$wait" ] || wait=$(($(field X-RateLimit-Reset) - $(date -d "$(field Date)" +%s)))
    wait=" $wait"
  fi
  echo "$status $remaining$wait"
done
