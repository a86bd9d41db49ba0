# The production image: `web` by default, `python manage.py fanout` for the fanout process.
FROM python:3.11-slim AS packages
WORKDIR /build
COPY requirements.txt constraints.txt ./
RUN python -m venv /opt/parley && /opt/parley/bin/pip install --no-cache-dir -r requirements.txt -c constraints.txt

FROM python:3.11-slim
ARG REVISION=unknown
ENV REVISION=$REVISION
ENV PATH=/opt/parley/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    DJANGO_SETTINGS_MODULE=config.settings.production
RUN useradd --system --uid 10001 --no-create-home parley
COPY --from=packages /opt/parley /opt/parley
WORKDIR /srv/parley
COPY . .
VOLUME /tmp
USER 10001
EXPOSE 8000
# In exec form the server is the first process and gets SIGTERM itself, so that connections are told to move on.
CMD ["python", "manage.py", "web", "--host", "0.0.0.0", "--port", "8000"]
