# A seed's history is the same in another process: same_hash.sh MOSAIC-SIM
set -eu
for seed in 3 8 21; do
    first=$("$1" --seed "$seed" --launches 4000 | head -n 1)
    second=$("$1" --seed "$seed" --launches 4000 | head -n 1)
    [ -n "$first" ] && [ "$first" = "$second" ] || {
        echo "seed $seed: \"$first\", then \"$second\""
        exit 1
    }
done
one=$("$1" --seed 3 --launches 4000 | head -n 1 | sed 's/.*hash//')
other=$("$1" --seed 8 --launches 4000 | head -n 1 | sed 's/.*hash//')
[ "$one" != "$other" ]
