#!/usr/bin/env bash
# Carry out the Dockerfile's steps in a Debian chroot, where there is no container engine, and run what it builds.
# Needs root and debootstrap: deploy/try_dockerfile.sh /var/tmp/parley-image
set -euo pipefail
root=${1:?the directory to build in}
project=$(cd "$(dirname "$0")/.." && pwd)
suite=$(. /etc/os-release && echo "$VERSION_CODENAME")

[ -x "$root/usr/bin/python3" ] || debootstrap --variant=minbase --include=python3,python3-venv,ca-certificates "$suite" "$root"
ln -sf python3 "$root/usr/bin/python"
# pip's index and certificates are this machine's.
for file in /etc/pip.conf /etc/resolv.conf "${PIP_CERT:-}" "${SSL_CERT_FILE:-}"; do
    [ -z "$file" ] || [ ! -f "$file" ] || install -D "$file" "$root$file"
done

inside() { chroot "$root" /usr/bin/env "$@"; }

kept() { # What .dockerignore lets into the image.
    sed -n 's/^!//p' "$project/.dockerignore"
}

echo "== stage packages"
mkdir -p "$root/build"
cp "$project"/requirements.txt "$project"/constraints.txt "$root/build/"
sed -n '/AS packages/,/^FROM python:3.11-slim$/s/^RUN //p' "$project/Dockerfile" | while read -r step; do
    inside sh -c "cd /build && $step"
done

echo "== stage runtime"
inside id -u 10001 > /dev/null 2>&1 || inside sh -c "$(sed -n 's/^RUN \(useradd.*\)/\1/p' "$project/Dockerfile")"
rm -rf "$root/srv/parley" && mkdir -p "$root/srv/parley"
kept | while read -r path; do
    mkdir -p "$root/srv/parley/$(dirname "$path")"
    cp -r "$project/$path" "$root/srv/parley/$path"
done
find "$root/srv/parley" -name __pycache__ -prune -exec rm -rf {} +

echo "== as its user: the commands start, and the settings of production refuse in sentences"
as_user() { chroot --userspec=10001:10001 "$root" /usr/bin/env -i PATH=/opt/parley/bin:/usr/bin:/bin \
    PYTHONUNBUFFERED=1 DJANGO_SETTINGS_MODULE=config.settings.production "$@"; }
as_user sh -c "cd /srv/parley && python manage.py web --help > /dev/null" 2> /tmp/refused || cat /tmp/refused
as_user SECRET_KEY="$(head -c 48 /dev/urandom | base64 -w0)" JWT_KEYS="first:$(head -c 48 /dev/urandom | base64 -w0)" \
    ALLOWED_HOSTS=chat.example.com TRUSTED_PROXIES=none KAFKA_BOOTSTRAP_SERVERS=127.0.0.1:9092 \
    REDIS_URL=redis://127.0.0.1:6379/0 DATABASE_URL=postgres:///parley \
    sh -c "cd /srv/parley && python manage.py check --deploy && python manage.py web --help > /dev/null && python manage.py fanout --help > /dev/null"
echo "== the image's steps work"
